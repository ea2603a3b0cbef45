"""Life cycle of every CUE process: start, spin, stop without a traceback, never outlive the launcher."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable

import rclpy
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.node import Node

from cue_core.errors import CueError
from cue_core.shared_memory import abandon, remove_orphans

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_STOP_GRACE = 2.5  # [s] for callbacks that still run; launchers kill after 3


def exit_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent dies, if ``CUE_EXIT_WITH_PARENT`` is 1 (the launchers set it)."""
    if os.environ.get("CUE_EXIT_WITH_PARENT") != "1":
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent or parent == 1:  # it died before the call
        sys.exit(0)


def run_node(factory: Callable[[], Node], threads: int = 4) -> int:
    """Build a node, spin it until SIGINT or SIGTERM, and return the process's exit code.

    A :class:`CueError` on the way is printed as one line and gives exit code 2.
    """
    exit_with_parent()
    problem, stopping = "", False
    try:
        with rclpy.init():
            try:
                _spin(factory(), threads)
            except Exception as error:
                stopping = not rclpy.ok()  # told to stop while starting: what it had was taken away
                problem = str(error) if isinstance(error, CueError) else ""
                raise
    except (KeyboardInterrupt, ExternalShutdownException):
        return 0
    except Exception:
        # Here may also come what the context met when it cleaned up a half-built node; what came first counts.
        if stopping:
            return 0
        if not problem:
            raise
        print(f"error: {problem}", file=sys.stderr)
        return 2
    finally:
        remove_orphans()  # DDS leaves a port behind when several processes end at once
    return 0


def _spin(node: Node, threads: int) -> None:
    executor = MultiThreadedExecutor(num_threads=threads) if threads > 1 else SingleThreadedExecutor()
    executor.add_node(node)
    try:
        executor.spin()
    finally:
        _end_anyway()
        executor.shutdown(timeout_sec=1.0)
        node.destroy_node()


def _end_anyway() -> None:
    """End this process soon even if a callback computes on: the interpreter would wait for its thread."""
    if rclpy.ok():
        return  # an error: its traceback and exit code come first

    def end() -> None:
        abandon()
        os._exit(0)

    timer = threading.Timer(_STOP_GRACE, end)
    timer.daemon = True
    timer.start()
