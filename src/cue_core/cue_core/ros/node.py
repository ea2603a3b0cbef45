"""Life cycle of every CUE process: start, spin, stop without a traceback, never outlive the launcher."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable

import rclpy
from rclpy.executors import Executor, MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from cue_core.errors import CueError
from cue_core.ros.clock import watch_clock
from cue_core.shared_memory import abandon, leave

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_CALLBACK_GRACE = 0.5  # [s] for callbacks that still run when the node is told to stop
_STOP_GRACE = 2.5  # [s] for all of the end; launchers kill after 3


def exit_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent dies, if ``CUE_EXIT_WITH_PARENT`` is 1 (the launchers set it)."""
    if os.environ.get("CUE_EXIT_WITH_PARENT") != "1":
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before the call
        sys.exit(0)


def run_node(factory: Callable[[], Node], threads: int = 4) -> int:
    """Build a node, spin it until SIGINT or SIGTERM, and return the process's exit code.

    A :class:`CueError` on the way is printed as one line and gives exit code 2.
    """
    exit_with_parent()
    # Not rclpy's handlers: they take the context away under callbacks that still use it.
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: end_now())  # nothing has begun yet
    try:
        with rclpy.init(signal_handler_options=SignalHandlerOptions.NO):
            node = factory()
            watch_clock(node)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: stop.set())
            _spin(node, threads, stop)
    except CueError as error:
        return _refuse(error)
    except Exception as error:
        # What cleaning up a half-built node met; what came first counts.
        if not isinstance(error.__context__, CueError):
            raise
        return _refuse(error.__context__)
    end_now()  # the interpreter would take its time, and others that end now wait for their turn
    return 0


def _refuse(error: CueError) -> int:
    print(f"error: {error}", file=sys.stderr)
    leave()
    return 2


def _spin(node: Node, threads: int, stop: threading.Event) -> None:
    """Spin in another thread, since only this one can be told by a signal, and wait for the end."""
    executor: Executor = MultiThreadedExecutor(num_threads=threads) if threads > 1 else SingleThreadedExecutor()
    executor.add_node(node)
    told: Future = Future()
    errors: list[BaseException] = []

    def spin() -> None:
        try:
            executor.spin_until_future_complete(told)
        except BaseException as error:  # it is raised again below
            errors.append(error)
        stop.set()

    spinner = threading.Thread(target=spin, name="spin", daemon=True)
    spinner.start()
    stop.wait()
    code = 0 if not errors else 2 if isinstance(errors[0], CueError) else 1
    last = threading.Timer(_STOP_GRACE, end_now, (code,))  # the interpreter would wait for threads that compute on
    last.daemon = True
    last.start()
    if errors:
        raise errors[0]
    told.set_result(None)
    spinner.join(_CALLBACK_GRACE)
    rest = threading.Thread(target=executor.shutdown, name="rest", daemon=True)
    rest.start()
    rest.join(_CALLBACK_GRACE)
    if spinner.is_alive() or rest.is_alive():
        end_now()  # a fit or a session goes on computing: neither it nor what it uses can be taken apart in peace
    with contextlib.suppress(Exception):
        node.destroy_node()


def end_now(code: int = 0) -> None:
    """End this process whatever its threads do."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    abandon()
    os._exit(code)
