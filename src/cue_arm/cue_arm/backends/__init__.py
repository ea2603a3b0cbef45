"""What plans strokes: one Protocol, several backends."""

from __future__ import annotations

from cue_arm.planner import ArmBackend, MinkBackend, StrokePlan, StrokeRequest

__all__ = ["ArmBackend", "MinkBackend", "StrokePlan", "StrokeRequest"]
