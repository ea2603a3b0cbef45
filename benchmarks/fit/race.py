"""CUE, CMA-ES and least squares side by side: same world, same shots, same start, same twin, same cores, by turns."""

from __future__ import annotations

from typing import Any

from benchmarks.fit import rivals
from benchmarks.fit.recover import THREADS, case, curve
from benchmarks.fit.whole import Curve, WholeShots
from benchmarks.fit.worlds import BALLS, SHOTS, stream, table
from benchmarks.harness import UnavailableError
from cue_core.parameters import nominal_values
from cue_identify.replay import TwinSimulator

TARGET = 0.01
"""Held-out error to race to [m]."""
PATIENCE = 12.0
"""The others get so many times as long as CUE needed ..."""
LIMITS = (20.0, 150.0)
"""... but at least and at most so long [s]."""
METHODS = {"cma": rivals.race_cma, "sysid": rivals.race_sysid}


def race(seed: int, index: int, shots: int = SHOTS, most: float = LIMITS[1]) -> dict[str, Any]:
    """Race on one world. CUE has won when its error stays below the target, the others when they first get there.

    Args:
        seed: of everything.
        index: of the world.
        shots: recorded.
        most: longest time for each of the others [s].
    """
    _, records, held_out = case(seed, index, "recovery", shots)
    own = curve(records, held_out, seed)
    won = own.stays(TARGET)
    limit = min(max(PATIENCE * won, LIMITS[0]), most) if won is not None else most
    found: dict[str, Any] = {
        "target_m": TARGET,
        "limit_s": limit,
        "unfitted_m": held_out.error(nominal_values()),
        "cue": {"reached_s": won, "first_s": own.reached(TARGET), "points": own.points},
    }
    for name, run in METHODS.items():
        simulator = TwinSimulator(table(), BALLS)
        other = Curve(held_out.error, TARGET, limit)
        whole = WholeShots(simulator, records, other, THREADS)
        try:
            details = run(whole, stream(seed, index, name))
        except UnavailableError as error:
            found[name] = {"problem": str(error)}
            continue
        end = [min(other.seconds, limit), float(whole.simulations), other.points[-1][2]] if other.points else []
        found[name] = {**details, "reached_s": other.reached(TARGET), "points": [*other.points, end]}
    return found
