"""``cue replay``: plays a run's recording onto the topics it came from."""

from __future__ import annotations

import argparse
import math
import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import rclpy
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rosgraph_msgs.msg import Clock

from cue.graph import DDS_SETTINGS
from cue.recording import Recorded, about, need_recordings, repair
from cue.replay import Due, ReplayPlan, inputs_of, schedule
from cue.resources import share
from cue.ros_topics_node import message_class, qos_from_text
from cue_core.errors import CueError
from cue_core.ros.conversions import seconds_to_stamp
from cue_core.ros.polling import Ears
from cue_core.ros.qos import STATES, STATES_LATCHED
from cue_msgs.msg import BallStateArray

_CLOCK_PERIOD_S = 0.01
_ANSWER_S = 2.0  # after which an image that was not answered is sent again, as the simulated world does
_PATIENCE_S = 60.0
_LINGER_S = 0.5  # in which what was told last reaches its readers
_LOOK_S = 0.002
_SETTLE_LOOK_S = 0.05
_LONGEST_SETTLING_S = 10.0
_TAKE_S = 0.1  # in which a reader takes a message that the next one on its topic would replace


class NoAnswerError(CueError):
    """The tracker did not answer an image."""


class Player:
    """Publishes recorded messages with the quality of service they had."""

    def __init__(self, node: Node, stop: threading.Event, *, make_clock: bool = False, paced: bool = False) -> None:
        """Play as ``node``.

        Args:
            node: publishes.
            stop: ends the replay when set.
            make_clock: publish the recording's time as the clock: a real table's recording holds none.
            paced: wait for the tracker's answer after each image instead of keeping time.
        """
        self._node, self._stop, self._make_clock, self._paced = node, stop, make_clock, paced
        self._publishers: dict[str, Any] = {}
        self._clock = node.create_publisher(Clock, "/clock", STATES) if make_clock else None
        self._clock_told = -math.inf
        self._ears = Ears(node)
        self._heard: set[bytes] = set()
        self.played = 0
        """Messages published so far."""

    def prepare(self, messages: Iterable[Recorded]) -> None:
        """Create the publishers of all topics, so that readers have found them before the first message."""
        for message in messages:
            if message.topic not in self._publishers:
                profile = qos_from_text(message.qos)
                self._publishers[message.topic] = self._node.create_publisher(
                    message_class(message.kind), message.topic, profile
                )
                if self._paced and message.topic.endswith("/camera/image_raw"):
                    answers = message.topic.removesuffix("camera/image_raw") + "ball_states"
                    self._ears.listen(BallStateArray, answers, STATES_LATCHED, raw=True)

    def settle(self, seconds: float) -> None:
        """Wait until no reader was found for that long: what is published before a reader is found, it misses [s]."""
        count, since = -1, 0.0
        began = time.monotonic()
        while time.monotonic() - began < seconds + _LONGEST_SETTLING_S:
            found = sum(publisher.get_subscription_count() for publisher in self._publishers.values())
            now = time.monotonic()
            if found != count:
                count, since = found, now
            if now - since >= seconds or self._stop.wait(_SETTLE_LOOK_S):
                return

    def play(self, schedule: Iterable[Due]) -> None:
        """Publish each message when it is due; returns at the end, or soon after ``stop`` is set.

        Raises:
            NoAnswerError: paced, and an image was not answered.
        """
        began = time.monotonic()
        for due in schedule:
            # Paced, only the order counts.
            if not self._paced and self._stop.wait(max(0.0, began + due.after - time.monotonic())):
                return
            if self._stop.is_set():
                return
            self._tell_time(due.message)
            self._publishers[due.message.topic].publish(due.message.data)
            self.played += 1
            if self._paced and due.message.topic.endswith("/camera/image_raw"):
                self._await_answer(due.message)
            elif self._paced and qos_from_text(due.message.qos).depth == 1:
                self._stop.wait(_TAKE_S)

    def _tell_time(self, message: Recorded) -> None:
        seconds = message.received / 1e9
        if self._clock is not None and abs(seconds - self._clock_told) >= _CLOCK_PERIOD_S:
            self._clock_told = seconds
            self._clock.publish(Clock(clock=seconds_to_stamp(seconds)))

    def _await_answer(self, image: Recorded) -> None:
        wanted = stamp_of(image.data)
        sent = began = time.monotonic()
        while not self._stop.is_set():
            self._heard.update(stamp_of(heard.message) for heard in self._ears.take())
            if wanted in self._heard:
                self._heard.clear()
                return
            now = time.monotonic()
            if now - began > _PATIENCE_S:
                raise NoAnswerError(f"the tracker did not answer an image within {_PATIENCE_S:g} s; does it run?")
            if now - sent > _ANSWER_S:
                sent = now
                self._publishers[image.topic].publish(image.data)
            time.sleep(_LOOK_S)


def stamp_of(data: bytes) -> bytes:
    """Return seconds and nanoseconds of the header that a CDR message begins with, in one byte order."""
    order = "<" if data[1] & 1 else ">"
    return struct.pack("<iI", *struct.unpack(f"{order}iI", bytes(data[4:12])))


def replay(options: argparse.Namespace, write: Callable[[str], object]) -> int:
    """Play the recordings of a run.

    Raises:
        CueError: there is none, or an option is wrong.
    """
    run = Path(options.run)
    files = need_recordings(run)
    if options.repair:
        for path in files:
            write(f"{path}: {repair(path)} messages")
        return 0
    only = tuple(name for name in options.topics.split(",") if name)
    if options.inputs_of:
        only += inputs_of(options.inputs_of)
    pause = math.inf if options.longest_pause is None else options.longest_pause
    plan = ReplayPlan(run, options.rate, options.start, pause, only)
    os.environ.setdefault(DDS_SETTINGS, str(share() / "config" / "fastdds.xml"))
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with rclpy.init(signal_handler_options=SignalHandlerOptions.NO):
        node = Node("replay")
        live = about(files[0]).get("live") == "true"
        player = Player(node, stop, make_clock=live, paced=options.paced)
        player.prepare(due.message for due in schedule(plan))
        player.settle(options.delay)
        while not stop.is_set():
            player.play(schedule(plan))
            if not options.loop:
                break
        stop.wait(_LINGER_S)
        node.destroy_node()
    write(f"{player.played} messages played")
    return 0
