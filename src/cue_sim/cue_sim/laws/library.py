"""The native library: where it is, and its laws' part of the interface. MuJoCo's Python package is not needed here."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

from cue_core.errors import CueError

ABI = 7
"""Number of the interface; equals ``CUE_ABI`` in ``native/cue_kernel.h``."""
SLOTS = ("cloth", "ball", "cushion")
"""What a law can be for, in the order of ``CUE_SLOT_*``."""
OWN = 8
"""Most parameters that one law has of its own; ``CUE_OWN``."""


class KernelError(CueError):
    """The native kernel is missing, or was built for something else."""


class LawParameter(ctypes.Structure):
    """``cue_law_parameter``."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("unit", ctypes.c_char_p),
        ("nominal", ctypes.c_double),
        ("minimum", ctypes.c_double),
        ("maximum", ctypes.c_double),
        ("description", ctypes.c_char_p),
    ]


class LawRecord(ctypes.Structure):
    """``cue_law``."""

    _fields_ = [
        ("slot", ctypes.c_int32),
        ("dissipative", ctypes.c_int32),
        ("name", ctypes.c_char_p),
        ("source", ctypes.c_char_p),
        ("description", ctypes.c_char_p),
        ("parameters", ctypes.POINTER(LawParameter)),
        ("cloth", ctypes.c_void_p),
        ("ball", ctypes.c_void_p),
        ("cushion", ctypes.c_void_p),
    ]


@cache
def load() -> ctypes.CDLL:
    """Load the native library, once, and check that it fits this Python package.

    Raises:
        KernelError: it is missing, or has another interface.
    """
    name = "libcue_kernel.so"
    places = [Path(__file__).parents[1] / name]
    places += [
        found
        for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
        if prefix
        for found in Path(prefix).glob(f"lib/python3*/site-packages/cue_sim/{name}")
    ]
    path = next((place for place in places if place.exists()), None)
    if path is None:
        raise KernelError(f"{name} is not built; run: make setup (looked in {', '.join(map(str, places))})")
    return open_library(path)


def open_library(path: Path) -> ctypes.CDLL:
    """Open the native library at a path and declare its functions.

    Raises:
        KernelError: it has another interface.
    """
    library = ctypes.CDLL(str(path))
    if library.cue_abi() != ABI:
        raise KernelError(f"{path} has interface {library.cue_abi()}, needs {ABI}; run: make setup")
    library.cue_law_at.restype = ctypes.POINTER(LawRecord)
    library.cue_law_at.argtypes = [ctypes.c_int, ctypes.c_int]
    pointer, integer, double = ctypes.c_void_p, ctypes.c_int, ctypes.c_double
    library.cue_evaluate_cushion.restype = None
    library.cue_evaluate_cushion.argtypes = [pointer, integer, double, double, double, *[pointer] * 4]
    library.cue_evaluate_ball.restype = None
    library.cue_evaluate_ball.argtypes = [pointer, integer, *[pointer] * 6]
    library.cue_evaluate_cloth.restype = None
    library.cue_evaluate_cloth.argtypes = [pointer, integer, double, *[pointer] * 4]
    return library
