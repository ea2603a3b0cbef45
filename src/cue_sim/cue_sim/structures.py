"""The kernel's structs as ctypes sees them; fields as in ``native/cue_kernel.h``, whose number guards both sides."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

INT = ctypes.POINTER(ctypes.c_int32)
LONG = ctypes.POINTER(ctypes.c_int64)
DOUBLE = ctypes.POINTER(ctypes.c_double)
BYTE = ctypes.POINTER(ctypes.c_uint8)

OUTCOME = np.dtype(
    [
        *((name, np.int32) for name in ("status", "events", "steps", "moved")),
        *((name, np.float64) for name in ("time", "energy_gain", "seconds")),
    ]
)
"""``cue_outcome``: what became of one job of a batch."""


class LayoutStruct(ctypes.Structure):
    """``cue_layout``."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("balls", "segments", "pockets", "geoms")),
        *((name, INT) for name in ("body", "qpos", "dof")),
        ("radius", DOUBLE),
        ("mass", DOUBLE),
        ("role", INT),
        ("segment", DOUBLE),
        ("reach", DOUBLE),
        ("cushion", INT),
        ("pocket", DOUBLE),
        ("half_length", ctypes.c_double),
        ("half_width", ctypes.c_double),
        ("stop", DOUBLE),
        ("line", DOUBLE),
        ("lines", ctypes.c_int32),
        ("unused", ctypes.c_int32),
        *((name, INT) for name in ("ball_id", "ball_geom", "nose_geom")),
        *((name, DOUBLE) for name in ("inertia", "dof_inertia", "nose")),
        ("nose_height", ctypes.c_double),
        ("inset", ctypes.c_double),
    ]


class Options(ctypes.Structure):
    """``cue_options``."""

    _fields_ = [
        *((name, ctypes.c_double) for name in ("until", "largest_step", "impact_step")),
        *(
            (name, ctypes.c_int32)
            for name in ("contact_limit", "stop_at_rest", "check_energy", "step_limit", "clock", "unused")
        ),
        ("cancel", ctypes.c_void_p),
    ]


class Record(ctypes.Structure):
    """``cue_record``."""

    _fields_ = [
        ("count", ctypes.c_int32),
        ("next", ctypes.c_int32),
        ("time", DOUBLE),
        ("position", DOUBLE),
        ("pocketed", BYTE),
        ("event_capacity", ctypes.c_int32),
        ("events", ctypes.c_int32),
        ("event", DOUBLE),
        ("contacts", ctypes.c_int32),
        ("steps", ctypes.c_int32),
        ("home", DOUBLE),
        ("energy_gain", ctypes.c_double),
        ("seconds", ctypes.c_double),
    ]


class Batch(ctypes.Structure):
    """``cue_batch``."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("jobs", "law_size", "next", "done", "cancel", "event_capacity")),
        ("options", Options),
        *(
            (name, ctypes.c_void_p)
            for name in (
                *("laws", "refused", "position", "velocity", "spin", "in_play", "contact_limit", "first_time", "time"),
                *("sample", "pocketed", "rest", "event", "outcome", "learned"),
            )
        ),
    ]


class BasisStruct(ctypes.Structure):
    """``cue_basis``."""

    _fields_ = [("count", ctypes.c_int32), ("dims", ctypes.c_int32), ("centre", DOUBLE), ("per_width", DOUBLE)]


class Learned(ctypes.Structure):
    """``cue_learned``."""

    _fields_ = [(name, BasisStruct) for name in ("rolling", "cushion", "ball")]


def pointer(array: np.ndarray, kind: Any) -> Any:
    """Return a C-contiguous array's address as a pointer of a kind above."""
    return array.ctypes.data_as(kind)
