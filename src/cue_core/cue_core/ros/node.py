"""Life cycle of every CUE process: start, spin, stop without a traceback, never outlive the launcher."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

import rclpy
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from rclpy.node import Node

from cue_core.errors import CueError

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


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
    try:
        with rclpy.init():
            node = factory()
            executor = MultiThreadedExecutor(num_threads=threads)
            executor.add_node(node)
            try:
                executor.spin()
            finally:
                executor.shutdown(timeout_sec=1.0)
                node.destroy_node()
    except (KeyboardInterrupt, ExternalShutdownException):
        return 0
    except CueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
