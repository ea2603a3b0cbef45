"""The twin against the independent reference, and against itself with halved steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import UnavailableError
from benchmarks.twin.shots import (
    ball_ids,
    contacts,
    load_table,
    random_starts,
    rest_differences,
    starts_of_class,
)
from cue_core.errors import CueError
from cue_core.parameters import nominal_values
from cue_sim.kernel import LARGEST_STEP
from cue_sim.laws import Laws
from cue_sim.twin import HORIZON, Start, Trajectory, Twin

MM = 1000.0
BALLS = 6


def against_reference(table: str, label: str, count: int, seed: int) -> dict[str, Any]:
    """Play shots with the twin, with the twin at half its largest step, and with the reference.

    Returns:
        Per shot: ``mm`` largest rest difference over the balls [mm], ``mean_mm`` over balls that moved, ``half_mm`` the
        largest at half the step, ``contacts`` in the twin, ``same_contacts`` whether the reference has as many,
        ``fault`` of the twin; and ``refused``: what the reference says of shots that it could not play.

    Raises:
        UnavailableError: this version has no reference.
    """
    try:
        from cue_sim import reference
    except ImportError:
        raise UnavailableError("cue_sim.reference is not there") from None
    twin = Twin(load_table(table), ball_ids(BALLS))
    half = Twin(twin.table, twin.ball_ids, largest_step=LARGEST_STEP / 2)
    laws = Laws.from_parameters(nominal_values())
    names = ("mm", "mean_mm", "half_mm", "contacts", "same_contacts", "fault", "refused")
    out: dict[str, list[Any]] = {name: [] for name in names}
    for start in starts_of_class([seed, len(table)], twin, label, count):
        path, finer = twin.simulate(start, None), half.simulate(start, None)
        try:
            exact = reference.simulate(twin.table, start, laws, horizon=HORIZON)
        except CueError as error:
            out["refused"].append(str(error))
            continue
        difference = rest_differences(path, exact)
        moved = np.linalg.norm(exact.rest_positions - start.positions, axis=1) > 1e-6
        out["mm"].append(MM * float(difference.max()))
        out["mean_mm"].append(MM * float(difference[moved].mean()) if moved.any() else 0.0)
        out["half_mm"].append(MM * float(rest_differences(finer, exact).max()))
        out["contacts"].append(contacts(path))
        out["same_contacts"].append(_count(exact) == contacts(path))
        out["fault"].append(path.fault)
    return out


def _count(exact: Any) -> int:
    return sum(int(event.kind) in (1, 2) for event in exact.events)


def step_halving(table: str, label: str, count: int, seed: int) -> dict[str, Any]:
    """Play the shots of :func:`against_reference` with the largest step and with half of it.

    Returns:
        ``mm``: per shot the largest rest difference over the balls [mm].
    """
    twin = Twin(load_table(table), ball_ids(BALLS))
    half = Twin(twin.table, twin.ball_ids, largest_step=LARGEST_STEP / 2)
    differences = [
        rest_differences(twin.simulate(start, None), half.simulate(start, None)).max()
        for start in starts_of_class([seed, len(table)], twin, label, count)
    ]
    return {"mm": [MM * float(d) for d in differences]}


def mirror(table: str, axis: int, count: int, seed: int) -> dict[str, Any]:
    """Play shots and their mirror images in a plane across ``axis``.

    Returns:
        Per shot: ``mm`` largest difference of rest positions once mirrored back [mm], and ``contacts``.
    """
    twin = Twin(load_table(table), ball_ids(BALLS))
    flip = np.ones(2)
    flip[axis] = -1.0
    turn = np.full(3, -1.0)  # spin is an axial vector: only its part along the mirror's normal stays
    turn[axis] = 1.0
    out: dict[str, list[Any]] = {"mm": [], "contacts": []}
    for start in random_starts([seed, axis, 11], twin.table, BALLS, count):
        there = twin.simulate(start, None)
        image = Start(start.positions * flip, start.velocities * flip, start.spins * turn, start.in_play)
        back = twin.simulate(image, None)
        out["mm"].append(MM * float(_mirrored(there, back, flip)))
        out["contacts"].append(contacts(there))
    return out


def _mirrored(there: Trajectory, back: Trajectory, flip: np.ndarray) -> float:
    return float(np.abs(back.rest_positions * flip - there.rest_positions).max())
