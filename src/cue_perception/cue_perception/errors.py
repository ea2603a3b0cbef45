"""Errors of the tracker."""

from __future__ import annotations

from cue_core.errors import CueError


class TableNotFoundError(CueError):
    """The image shows no table that agrees with the preset; the message says what disagreed."""


class SourceError(CueError):
    """A camera, video file or image folder cannot be opened or read."""
