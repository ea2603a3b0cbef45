"""The arm: plans, checks and plays strokes, and measures what was achieved.

Import from the modules: ``cue_arm.reach`` (which shots can be played), ``cue_arm.planner`` (whole strokes),
``cue_arm.measure`` (achieved strokes from joint states). Nothing is imported here: a caller pays only for its part.
"""
