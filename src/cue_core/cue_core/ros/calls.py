"""Calls to other nodes that outlive a killed and respawned peer.

They block, so they belong in a thread that is not needed for spinning (a reentrant callback of a multi-threaded
executor). All waiting is wall time: the simulated clock may stand still.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import rclpy
from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future

from cue_core.errors import CueError

_POLL_S = 0.05
_ACCEPT_S = 2.0  # in which a living server answers; a goal is not given up before
_CANCEL_WAIT_S = 30.0


class PeerGoneError(CueError):
    """A node that was called has been away for too long."""

    def __init__(self, name: str, seconds: float) -> None:
        """Name the service or action and how long it was waited for [s]."""
        super().__init__(f"{name} did not answer within {seconds:g} s; its node is gone or stuck")


class GoalRefusedError(CueError):
    """An action server did not accept a goal."""

    def __init__(self, name: str) -> None:
        """Name the action."""
        super().__init__(f"{name} refused the goal")


class NodeStopError(BaseException):
    """This process is told to stop; nothing but the end of the thread's work may handle it."""


class Caller:
    """Calls services and actions; what is lost with a killed peer is asked again once it is back.

    So only calls that may be repeated go through it: pure services, actions with an id that makes them idempotent.
    """

    def __init__(
        self, node: Node, check: Callable[[], None], answer_timeout: float = 10.0, peer_timeout: float = 60.0
    ) -> None:
        """Set up the calls of one node.

        Args:
            node: whose context counts.
            check: called every 50 ms while waiting; raises when the caller should give up, e.g. was cancelled.
            answer_timeout: without an answer, after which is looked whether the peer still knows of the call [s].
            peer_timeout: without a peer, after which :class:`PeerGoneError` is raised [s].
        """
        self._node, self._check = node, check
        self._answer_timeout, self._peer_timeout = answer_timeout, peer_timeout

    def pause(self, waiter: threading.Event | threading.Condition | None = None) -> None:
        """Wait up to 50 ms, shorter when ``waiter`` is notified (a condition must be held).

        Raises:
            NodeStopError: the process is told to stop.
        """
        if not rclpy.ok(context=self._node.context):
            raise NodeStopError
        if waiter is None:
            time.sleep(_POLL_S)
        else:
            waiter.wait(_POLL_S)

    def service(self, client: Client, request: Any) -> Any:
        """Return the response.

        Raises:
            PeerGoneError: there was none for a long time.
        """
        name = client.srv_name
        self._wait_for(name, client.service_is_ready)
        begin = time.monotonic()
        answered = threading.Event()
        futures: list[Future] = []
        try:
            while time.monotonic() - begin < 3 * self._peer_timeout:
                self._wait_for(name, client.service_is_ready)
                futures.append(client.call_async(request))
                futures[-1].add_done_callback(lambda _future: answered.set())
                self._wait(answered, self._answer_timeout)
                for future in futures:
                    if future.done() and future.result() is not None:
                        return future.result()
                answered.clear()
        finally:
            for future in futures:
                client.remove_pending_request(future)
        raise PeerGoneError(name, 3 * self._peer_timeout)

    def action(
        self, client: ActionClient, goal: Any, on_feedback: Callable[[Any], None] | None = None, name: str = ""
    ) -> Any:
        """Return the result of a goal.

        When ``check`` raises meanwhile, the goal is cancelled and its end awaited: its result is returned all the same,
        or, where it has none, the exception goes on.

        Raises:
            PeerGoneError: the server was away for too long.
            GoalRefusedError: the server did not accept the goal.
        """
        name = name or client._action_name
        while True:
            self._wait_for(name, client.server_is_ready)
            handle = self._send(client, goal, on_feedback, name)
            if handle is None:
                continue  # the server went away in between
            found, result = self._result(client, handle, name)
            if found:
                return result
            self._node.get_logger().warning(f"{name} lost the goal, sending it again")

    def _send(self, client: ActionClient, goal: Any, on_feedback: Callable[[Any], None] | None, name: str) -> Any:
        answered = threading.Event()

        def feedback(message: Any) -> None:
            if on_feedback is not None:
                on_feedback(message.feedback)

        future = client.send_goal_async(goal, feedback_callback=feedback)
        future.add_done_callback(lambda _future: answered.set())
        begin = time.monotonic()
        while not answered.is_set() and time.monotonic() - begin < _ACCEPT_S:
            self.pause(answered)
        try:
            self._wait(answered, self._answer_timeout)
        except Exception:
            # Cancelled before the server answered: a goal that it accepts after all must not run on.
            future.add_done_callback(_cancel_accepted)
            raise
        if not future.done():
            future.add_done_callback(_cancel_accepted)
            return None
        handle = future.result()
        if handle is None or not handle.accepted:
            raise GoalRefusedError(name)
        return handle

    def _result(self, client: ActionClient, handle: Any, name: str) -> tuple[bool, Any]:
        """Return (True, result), or (False, None) when the server does not know the goal any more."""
        answered = threading.Event()
        futures: list[Future] = []
        seen = time.monotonic()
        while True:
            # Asked anew from time to time: a server that was respawned answers that it does not know the goal.
            futures.append(handle.get_result_async())
            futures[-1].add_done_callback(lambda _future: answered.set())
            try:
                self._wait(answered, self._answer_timeout)
            except Exception:
                return True, self._cancelled(handle, futures, answered)
            answers: list[Any] = [f.result() for f in futures if f.done() and f.result() is not None]
            known = [a for a in answers if a.status != GoalStatus.STATUS_UNKNOWN]
            if known:
                return True, known[0].result
            if answers:
                return False, None
            answered.clear()
            if client.server_is_ready():
                seen = time.monotonic()
            elif time.monotonic() - seen > self._peer_timeout:
                raise PeerGoneError(name, self._peer_timeout)

    def _cancelled(self, handle: Any, futures: list[Future], answered: threading.Event) -> Any:
        """Cancel a goal, wait for its end and return its result; else let the present exception go on."""
        handle.cancel_goal_async()
        begin = time.monotonic()
        while time.monotonic() - begin < _CANCEL_WAIT_S and not any(f.done() for f in futures):
            self.pause(answered)
        for future in futures:
            response = future.result() if future.done() else None
            if response is not None and response.status != GoalStatus.STATUS_UNKNOWN:
                return response.result
        raise  # the exception that cancelled it

    def _wait_for(self, name: str, ready: Callable[[], bool]) -> None:
        begin = time.monotonic()
        told = False
        while not ready():
            self._check()
            self.pause()
            waited = time.monotonic() - begin
            if waited > self._peer_timeout:
                raise PeerGoneError(name, self._peer_timeout)
            if waited > 5.0 and not told:
                self._node.get_logger().warning(f"waiting for {name}")
                told = True

    def _wait(self, event: threading.Event, seconds: float) -> None:
        begin = time.monotonic()
        while not event.is_set() and time.monotonic() - begin < seconds:
            self._check()
            self.pause(event)


def _cancel_accepted(future: Future) -> None:
    handle = future.result()
    if handle is not None and handle.accepted:
        handle.cancel_goal_async()
