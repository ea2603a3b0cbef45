"""The MuJoCo twin of a pool table, and the simulated world that stands in for a real one."""

import os

# MuJoCo loads an OpenGL while it is imported, and cannot be imported where that one is missing. Only the camera
# renders, and it looks for an OpenGL by itself (cue_sim.camera): everything else must work without graphics.
REQUESTED_GL = os.environ.get("MUJOCO_GL", "").lower()
"""The user's choice of OpenGL: ``egl``, ``osmesa``, or empty."""
os.environ["MUJOCO_GL"] = "off"
