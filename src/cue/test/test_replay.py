"""Replaying: order, time, latched topics; and a recorder that is killed, with what it recorded played back (R14)."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cue.recording import Recorded, RecordingError, RecordingWriter, is_finished, read, recordings
from cue.replay import ReplayPlan, chosen, in_order, inputs_of, schedule
from cue_core.errors import OutOfRangeError, UnknownNameError

S = 10**9
LATCHED = "- durability: transient_local\n  depth: 1\n"
DOMAIN = 47
RECORDER = Path(__file__).resolve().parents[1] / "scripts" / "recorder"


def message(topic, received, sent=None, data=b"", qos=""):
    """Return a recorded message; times in seconds."""
    sent = received if sent is None else sent
    return Recorded(topic, "std_msgs/msg/String", data, int(received * S), int(sent * S), qos)


def recorded(folder, messages):
    """Write messages as a run's next recording."""
    writer = RecordingWriter(folder / "session.mcap")
    for item in messages:
        if item.topic not in writer:
            writer.add_topic(item.topic, item.kind, "string data\n", item.qos)
        writer.add(item.topic, item.data, item.received, item.sent)
    writer.close()
    return folder


def test_messages_are_played_in_the_order_in_which_they_were_published():
    arrived = [(1.0, 1.0), (1.3, 1.2), (1.4, 1.1), (9.0, 9.0), (15.0, 15.0), (15.1, 3.0)]
    played = [m.sent / S for m in in_order(message("/a", *times) for times in arrived)]
    assert played == [1.0, 1.1, 1.2, 9.0, 3.0, 15.0]  # the last came too late for its place


def test_rate_start_and_pauses(tmp_path):
    run = recorded(tmp_path, [message("/a", t) for t in (100.0, 101.0, 131.0, 132.0)])
    assert [due.after for due in schedule(ReplayPlan(run))] == pytest.approx([0, 1, 31, 32])
    assert [due.after for due in schedule(ReplayPlan(run, rate=2.0))] == pytest.approx([0, 0.5, 15.5, 16])
    assert [due.after for due in schedule(ReplayPlan(run, longest_pause=2.0))] == pytest.approx([0, 1, 3, 4])
    assert [due.message.sent / S for due in schedule(ReplayPlan(run, start=20.0))] == [131.0, 132.0]
    with pytest.raises(RecordingError, match="ends before 40 s"):
        list(schedule(ReplayPlan(run, start=40.0)))
    with pytest.raises(RecordingError, match="no message on b"):
        list(schedule(ReplayPlan(run, only=("b",))))
    with pytest.raises(OutOfRangeError, match="rate"):
        ReplayPlan(run, rate=0.0)


def test_a_late_start_tells_latched_topics_once_as_they_stood(tmp_path):
    run = recorded(
        tmp_path,
        [
            message("/table_info", 1.0, 0.0, b"old", LATCHED),  # latched long before the recording began
            message("/ball_states", 2.0, data=b"gone"),
            message("/table_info", 3.0, data=b"new", qos=LATCHED),
            message("/ball_states", 6.0, data=b"seen"),
        ],
    )
    found = [(due.message.topic, due.message.data) for due in schedule(ReplayPlan(run, start=4.0))]
    assert found == [("/table_info", b"new"), ("/ball_states", b"seen")]
    assert next(iter(schedule(ReplayPlan(run)))).after == 0.0


def test_topics_are_chosen_in_any_namespace():
    assert chosen("/table_a/camera/image_raw", inputs_of("tracker"))
    assert not chosen("/table_a/ball_states", inputs_of("tracker"))
    with pytest.raises(UnknownNameError, match="known are fitter, tracker, twin"):
        inputs_of("arm")


@pytest.fixture
def node():
    rclpy = pytest.importorskip("rclpy")
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=DOMAIN)
    made = rclpy.create_node("test_replay", context=context)
    yield made
    made.destroy_node()
    context.shutdown()


def wait_until(condition, what, seconds=20.0):
    """Wait for a condition."""
    end = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end, f"no {what} within {seconds} s"
        pause.wait(0.02)


@pytest.mark.ros
def test_r04_a_publisher_that_offers_too_little_is_named_with_the_policy(node):
    from rclpy.qos import QoSProfile

    from cue_core.ros.polling import Ears
    from cue_core.ros.qos import LATCHED
    from cue_msgs.msg import TableInfo

    ears = Ears(node)
    ears.listen(TableInfo, "table_info", LATCHED)
    node.create_publisher(TableInfo, "table_info", LATCHED)
    node.create_publisher(TableInfo, "table_info", QoSProfile(depth=1))
    wait_until(lambda: node.count_publishers("table_info") == 2, "publishers")
    (found,) = ears.mismatches()
    assert "table_info of test_replay" in found
    assert "volatile" in found.lower()


@pytest.mark.ros
def test_r14_a_killed_recorders_session_is_played_back_byte_for_byte(node, tmp_path):
    from builtin_interfaces.msg import Time
    from rclpy.serialization import serialize_message
    from sensor_msgs.msg import Image
    from std_msgs.msg import Header

    from cue.replay_node import Player, stamp_of
    from cue_core.ros.polling import Ears
    from cue_core.ros.qos import IMAGES_LOCKSTEP, LATCHED, STATES_LATCHED
    from cue_msgs.msg import BallStateArray, TableInfo

    def header(number):
        return Header(stamp=Time(sec=number, nanosec=5), frame_id="table")

    parameters = (f"run_dir:={tmp_path}", "record:=images", "use_sim_time:=true")

    def start():
        return subprocess.Popen(
            [sys.executable, str(RECORDER), "--ros-args", *(word for p in parameters for word in ("-p", p))],
            env={**os.environ, "ROS_DOMAIN_ID": str(DOMAIN), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"},
        )

    table = node.create_publisher(TableInfo, "table_info", LATCHED)
    balls = node.create_publisher(BallStateArray, "ball_states", STATES_LATCHED)
    images = node.create_publisher(Image, "camera/image_raw", IMAGES_LOCKSTEP)
    table.publish(TableInfo(header=header(0), name="latched before the recorder came"))
    sent = [Image(header=header(n), width=4, height=1, step=4, data=[n] * 4) for n in range(1, 8)]
    recorder = start()
    try:
        wait_until(lambda: images.get_subscription_count() and balls.get_subscription_count(), "recorder")
        for image in sent:
            images.publish(image)
            balls.publish(BallStateArray(header=image.header, frame=image.header.stamp.sec))
        path = tmp_path / "session.mcap"
        wait_until(lambda: path.exists() and sum(m.topic == "/camera/image_raw" for m in read(path)) == 7, "images")
    finally:
        recorder.send_signal(signal.SIGKILL)
        recorder.wait()
    assert not is_finished(path)
    again = start()  # the next life finishes the file, and writes its own
    try:
        wait_until(lambda: is_finished(path) and len(recordings(tmp_path)) == 2, "second recording")
        wait_until(lambda: any(m.topic == "/table_info" for m in read(recordings(tmp_path)[1])), "latched table")
        again.terminate()
        assert again.wait(10) == 0
    finally:
        again.kill()
    assert all(is_finished(file) for file in recordings(tmp_path))
    node.destroy_publisher(table)

    names = [m.topic for m in read(path)]
    assert names.count("/table_info") == 1
    assert names.count("/ball_states") == 7
    assert {m.qos.count("transient_local") for m in read(path) if m.topic == "/table_info"} == {1}

    # A tracker's part: it is told the images, one after the other, and answers each.
    ears, seen = Ears(node), []
    ears.listen(Image, "camera/image_raw", IMAGES_LOCKSTEP, raw=True)
    done = threading.Event()

    def answer():
        while not done.wait(0.002):
            for heard in ears.take():
                seen.append(bytes(heard.message))
                balls.publish(BallStateArray(header=sent[len(seen) - 1].header))

    tracker = threading.Thread(target=answer)
    tracker.start()
    plan = ReplayPlan(path, only=inputs_of("tracker"))
    player = Player(node, threading.Event(), paced=True)
    player.prepare(due.message for due in schedule(plan))
    player.play(schedule(plan))
    done.set()
    tracker.join()
    assert seen == [bytes(serialize_message(image)) for image in sent]
    stamps = [stamp_of(data) for data in seen]
    assert len(set(stamps)) == 7
    assert all(one < other for one, other in itertools.pairwise(int.from_bytes(s[:4], "little") for s in stamps))
