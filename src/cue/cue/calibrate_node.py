"""The client that starts a calibration session, shows its progress, and writes the report at the end."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rclpy
from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from rich.console import Console

from cue.progress import ProgressDisplay, Update
from cue_core.errors import CueError
from cue_core.ros.node import end_now, exit_with_parent
from cue_core.ros.params import declare
from cue_core.settings import check_settings, setting
from cue_msgs.action import Calibrate

_SPIN_S = 0.1
_ASK_AGAIN_S = 15.0  # silence after which the agent is asked whether it still knows the goal
_CANCEL_S = 1.0


@dataclass(frozen=True)
class CalibrateConfig:
    """What is asked of the agent."""

    instruction: str = setting("Calibrate the twin of this table.", "one sentence; it is recorded with the run")
    shots: int = setting(0, "strokes, the held-out ones included; 0 = the agent's default", low=0, high=1000)
    held_out_shots: int = setting(0, "of these, played only to judge the last fit; 0 = default", low=0, high=1000)
    run_dir: str = setting("", "run folder, where the report is written; empty = no report")
    seed: int = setting(0, "of the probes that twin.xml is fitted to", low=0, high=2**31 - 1)
    fit_portable: bool = setting(True, "at the end, fit twin.xml for other tools to the twin: about 35 s of one core")
    patience: float = setting(60.0, "without an agent, after which the client gives up", "s", 1.0, 3600.0)

    def __post_init__(self) -> None:
        """Check bounds.

        Raises:
            OutOfRangeError: naming the field.
        """
        check_settings(self)


class NoAgentError(CueError):
    """No agent answers."""


class CalibrateClient:
    """Sends one goal and follows it, also across a restart of the agent, which then resumes the session."""

    def __init__(self, node: Node, config: CalibrateConfig, display: ProgressDisplay) -> None:
        """Use ``node`` for the action, ``display`` for what the agent tells."""
        self._node, self._config, self._display = node, config, display
        self._client: Any = ActionClient(node, Calibrate, "calibrate")
        self._handle: Any = None
        self._heard = time.monotonic()

    def run(self) -> Calibrate.Result:
        """Return the result of the session.

        Raises:
            NoAgentError: none was there for ``patience`` seconds.
        """
        while True:
            self._handle = self._send()
            if self._handle is None:
                continue
            result = self._follow()
            if result is not None:
                return result
            self._display.say("waiting", "the agent was restarted; asking it to go on")

    def cancel(self) -> None:
        """Ask the agent to stop and give it a moment to hold the arm."""
        if self._handle is not None:
            self._spin_until(self._handle.cancel_goal_async(), _CANCEL_S)

    def _send(self) -> Any:
        self._display.show(Update("waiting", "for the agent"))
        deadline = time.monotonic() + self._config.patience
        while not self._client.server_is_ready():
            rclpy.spin_once(self._node, timeout_sec=_SPIN_S)
            if time.monotonic() > deadline:
                raise NoAgentError(f"no agent offers the action calibrate after {self._config.patience:g} s")
        goal = Calibrate.Goal(
            instruction=self._config.instruction,
            shots=self._config.shots,
            held_out_shots=self._config.held_out_shots,
        )
        answer = self._client.send_goal_async(goal, feedback_callback=self._on_feedback)
        if not self._spin_until(answer, _ASK_AGAIN_S):
            return None  # it died before it answered
        handle = answer.result()
        if not handle.accepted:
            raise NoAgentError("the agent refused the goal: it takes one session at a time")
        self._heard = time.monotonic()
        return handle

    def _follow(self) -> Calibrate.Result | None:
        """Return the result, or None when the agent has forgotten the goal because it was restarted."""
        pending = [self._handle.get_result_async()]
        while True:
            rclpy.spin_once(self._node, timeout_sec=_SPIN_S)
            for future in [f for f in pending if f.done()]:
                answer = future.result()
                return answer.result if answer.status != GoalStatus.STATUS_UNKNOWN else None
            if time.monotonic() - self._heard > _ASK_AGAIN_S:
                # A restarted agent answers at once that it does not know the goal; one that merely thinks does not.
                pending.append(self._handle.get_result_async())
                self._heard = time.monotonic()
                if not self._client.server_is_ready():
                    return None

    def _spin_until(self, future: Future, seconds: float) -> bool:
        rclpy.spin_until_future_complete(self._node, future, timeout_sec=seconds)
        return bool(future.done())

    def _on_feedback(self, message: Any) -> None:
        self._heard = time.monotonic()
        told = message.feedback
        self._display.show(
            Update(told.phase, told.text, told.shots_used, told.shots_budget, float(told.held_out_error))
        )


def _fit_portable(config: CalibrateConfig, display: ProgressDisplay) -> None:
    """Replace the session's unfitted ``twin.xml`` by a fitted one, now that nothing else needs the processor."""
    folder = Path(config.run_dir)
    if not config.fit_portable or not config.run_dir or not (folder / "twin.json").exists():
        return
    from cue_sim.portable_fit import fit_files

    try:
        fit = fit_files(folder, seed=config.seed, progress=lambda _, text: display.show(Update("portable", text)))
    except CueError as error:
        display.say("portable", f"twin.xml stays unfitted: {error}")
        return
    if "1" in fit.difference:
        display.say("portable", f"twin.xml is {100 * fit.difference['1'].median:.1f} cm off after one contact (median)")


def _report(run_dir: str, display: ProgressDisplay) -> str:
    """Write the report if a session left something to tell; a failure of it never hides the session's result."""
    if not run_dir or not (Path(run_dir) / "summary.json").exists():
        return ""
    from cue.report import write_report

    display.say("report", "drawing")
    try:
        return str(write_report(run_dir))
    except CueError as error:
        display.say("report", f"not written: {error}")
        return ""


def main() -> int:
    """Run the client and end: 0 after a good or a stopped session, 1 after another, 2 for bad arguments."""
    end_now(_run())
    return 0


def _run() -> int:
    exit_with_parent()
    # Not rclpy's handlers: they end the context, and then no cancel could be sent.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(highlight=False)
    try:
        with rclpy.init(signal_handler_options=SignalHandlerOptions.NO):
            node = Node("calibrate")
            config = declare(node, CalibrateConfig)
            with ProgressDisplay(console) as display:
                client = CalibrateClient(node, config, display)
                try:
                    result = client.run()
                except KeyboardInterrupt:
                    display.say("stopped", "cancelling the session")
                    client.cancel()
                    return 0
                _fit_portable(config, display)
                report = _report(config.run_dir, display)
    except (KeyboardInterrupt, ExternalShutdownException):
        return 0
    except NoAgentError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except CueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if result.error_code:
        print(f"error: the session ended with code {result.error_code}: {result.error_msg}", file=sys.stderr)
    if report:
        console.print(f"report: {report}", soft_wrap=True)
    console.print(f"\n{result.summary}".rstrip(), soft_wrap=True)
    return 1 if result.error_code else 0
