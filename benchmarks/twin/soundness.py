"""Energy and escapes, from states read at every contact and in between; the kernel's own check is off."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from benchmarks.twin.shots import ball_ids, load_table, rack, random_starts
from cue_core.parameters import nominal_values
from cue_core.table import TableModel
from cue_sim import kernel
from cue_sim.kernel import EventKind
from cue_sim.laws import Laws
from cue_sim.twin import HORIZON, Start, Twin

LOOK = 0.1
"""The state is read at the latest after this time [s]."""
BREAK_SPEED = 8.0
"""[m/s]"""


def energy(layout: Any, data: mujoco.MjData, in_play: np.ndarray) -> float:
    """Return the kinetic energy of the balls in play [J]: m v^2 / 2 + m R^2 w^2 / 5 (solid spheres)."""
    velocity, spin = layout.velocities(data), layout.spins(data)
    each = layout.mass * (0.5 * (velocity**2).sum(axis=1) + 0.2 * layout.radius**2 * (spin**2).sum(axis=1))
    return float(each[in_play.astype(bool)].sum())


def off_table(table: TableModel, layout: Any, data: mujoco.MjData, in_play: np.ndarray) -> int:
    """Return how many balls in play have their centre beyond the nose lines and outside every pocket's mouth."""
    count = 0
    for ball in np.flatnonzero(in_play):
        x, y = layout.positions(data)[ball]
        if abs(x) <= table.length / 2 and abs(y) <= table.width / 2:
            continue
        near = [np.hypot(x - p.position[0], y - p.position[1]) for p in table.pockets]
        mouth = 0.5 * max(table.corner_mouth, table.side_mouth) + max(table.corner_shelf, table.side_shelf)
        count += not near or min(near) > mouth + 2 * layout.radius[ball]
    return count


def _play(twin: Twin, model: mujoco.MjModel, data: mujoco.MjData, start: Start) -> tuple[float, int, str | None]:
    """Return the largest relative rise of energy, the balls found off the table, and the fault that the kernel named.

    A rise is judged against the least energy read before it; readings lie at most one contact and 0.1 s apart. A ball
    that drops into a pocket takes its energy along.
    """
    layout, laws = twin.layout, Laws.from_parameters(nominal_values()).array()
    in_play = np.ones(len(twin.ball_ids), np.int32)
    kernel.start(model, data, layout, start.positions, start.velocities, start.spins, in_play)
    least, rise, lost = energy(layout, data, in_play), 0.0, 0
    while data.time < HORIZON:
        outcome = kernel.advance(
            model,
            data,
            layout,
            laws,
            in_play,
            min(data.time + LOOK, HORIZON),
            twin.largest_step,
            twin.impact_step,
            contact_limit=1,
            stop_at_rest=True,
        )
        if outcome.fault is not None:
            return rise, lost, outcome.fault
        now = energy(layout, data, in_play)
        if least > 0:
            rise = max(rise, now / least - 1)
        least = min(least, now)
        lost = max(lost, off_table(twin.table, layout, data, in_play))
        if outcome.status == 1:
            break
    return rise, lost, None


def energy_and_escapes(table: str, kind: str, count: int, seed: int) -> dict[str, Any]:
    """Play ``count`` random shots of 6 balls (``kind`` "shots") or breaks of a rack of 15 at 8 m/s ("breaks").

    Returns:
        ``rise``: per shot the largest relative rise of energy; ``kernel_rise``: the largest that the kernel itself saw
        in those shots, played in one go; ``off_table``: balls found off the table without a fault that says so;
        ``airborne``: shots in which an event says that a ball would have hopped; ``faults``: what the kernel named.
    """
    model_table = load_table(table)
    if kind == "breaks":
        twin = Twin(model_table, ball_ids(16))
        rng = np.random.default_rng([seed, len(table), 15])
        # touching racks run through the cluster law, loose ones through pairs in quick succession
        starts = [rack(model_table, rng, BREAK_SPEED, (0.0, 2e-5, 1e-4, 5e-4)[k % 4]) for k in range(count)]
    else:
        twin = Twin(model_table, ball_ids(6))
        starts = random_starts([seed, len(table), 6], model_table, 6, count)
    data = mujoco.MjData(twin.model)
    whole = twin.simulate_batch(starts, nominal_values(), threads=1)
    kernel_rise = max((float(path.energy_gain) for path in whole), default=0.0)
    airborne = sum(path.contacts(EventKind.AIRBORNE) > 0 for path in whole)
    out: dict[str, Any] = {
        "rise": [],
        "kernel_rise": kernel_rise,
        "off_table": 0,
        "airborne": airborne,
        "faults": [],
    }
    for start in starts:
        rise, lost, fault = _play(twin, twin.model, data, start)
        out["rise"].append(rise)
        if fault is None:
            out["off_table"] += lost
        else:
            out["faults"].append(fault)
    return out
