"""What a learned correction adds on a cloth that no parameter describes, and on one that needs none."""

from __future__ import annotations

from typing import Any

from benchmarks.harness import UnavailableError

WORLDS = ("uneven0", "uneven1", "uneven2", "plain0", "plain1")
"""With an unmodelled smooth field of rolling friction; and without."""


def gain(seed: int, world: str) -> dict[str, Any]:
    """Fit a world with and without the learned correction.

    Raises:
        UnavailableError: this CUE has none.
    """
    raise UnavailableError("this version has no learned correction")
