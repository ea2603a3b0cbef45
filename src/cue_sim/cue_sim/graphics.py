"""OpenGL without a display."""

from __future__ import annotations

import importlib
import os
from typing import Any

from cue_core.errors import CueError
from cue_sim import REQUESTED_GL

_BACKENDS = ("egl", "osmesa")


class NoGraphicsError(CueError):
    """No OpenGL context without a display can be made."""


def make_context(width: int, height: int) -> Any:
    """Return a current OpenGL context: EGL, else OSMesa; ``MUJOCO_GL`` picks one. Belongs to the calling thread.

    Raises:
        NoGraphicsError: none works; one line says what was tried.
    """
    problems = []
    for name in (REQUESTED_GL,) if REQUESTED_GL in _BACKENDS else _BACKENDS:
        os.environ["PYOPENGL_PLATFORM"] = name
        try:
            context = importlib.import_module(f"mujoco.{name}").GLContext(width, height)
            context.make_current()
            return context
        except Exception as error:  # PyOpenGL raises whatever its loader met
            problems.append(f"{name}: {' '.join(str(error).split()) or type(error).__name__}")
    raise NoGraphicsError(
        "no OpenGL without a display (" + "; ".join(problems) + "); install libegl1 and libgl1-mesa-dri, or libosmesa6"
    )
