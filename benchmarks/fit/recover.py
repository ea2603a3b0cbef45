"""Fits of CUE: how exact, how honest about it, how long, how soon again, how soon stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.fit.whole import Curve
from benchmarks.fit.worlds import BALLS, NOISES, SHOTS, HeldOut, World, draw_world, stream, table
from benchmarks.harness import BenchmarkError
from cue_core.parameters import PARAMETERS, ParameterEstimate, nominal_values
from cue_core.shots import ShotRecord
from cue_identify.errors import FitCode, FitError
from cue_identify.fit import FitConfig, FitOutcome, FitRequest, Fitter
from cue_identify.replay import Progress, TwinSimulator

THREADS = 2
"""Of every fit that is timed, and of the methods it is compared with."""


def case(seed: int, index: int, noise: str, count: int = SHOTS) -> tuple[World, list[ShotRecord], HeldOut]:
    """Return a world, its recorded shots, and fresh ones that score."""
    world = draw_world(seed, index)
    records = world.shots(stream(seed, index, f"shots {noise}"), count, NOISES[noise])
    return world, records, HeldOut(world, stream(seed, index, "held out"))


def fit(
    records: Sequence[ShotRecord], seed: int, present: ParameterEstimate | None = None, threads: int = THREADS
) -> tuple[FitOutcome, float, float]:
    """Return a fit of CUE with its defaults, and its time by the clock and of the processor [s]."""
    wall, cpu = time.perf_counter(), time.process_time()
    fitter = Fitter(TwinSimulator(table(), BALLS), FitConfig(threads=threads))
    outcome = fitter.fit(records, FitRequest(seed=seed), present)
    return outcome, time.perf_counter() - wall, time.process_time() - cpu


def recovery(seed: int, index: int, noise: str, shots: int = SHOTS) -> dict[str, Any]:
    """Fit one world from the textbook's values and compare with the truth."""
    world, records, held_out = case(seed, index, noise, shots)
    outcome, wall, cpu = fit(records, seed)
    estimate = outcome.estimate
    errors = held_out.errors(estimate.values)
    return {
        "shots": len(records),
        "rest_m": float(np.nanmean(errors)),
        "rest_median_m": float(np.nanmedian(errors)),
        "rest_worst_m": float(np.nanmax(errors)),
        "unfitted_m": held_out.error(nominal_values()),
        "wall_s": wall,
        "cpu_s": cpu,
        "simulations": outcome.evaluations,
        "promoted": bool(outcome.promoted),
        "excluded": dict(outcome.excluded),
        "parameters": parameters(estimate, world.values),
    }


def parameters(estimate: ParameterEstimate, truth: np.ndarray) -> dict[str, dict[str, Any]]:
    """Return per fitted parameter its true and estimated values, and how many standard deviations lie between."""
    found = {}
    for i, name in enumerate(PARAMETERS):
        if estimate.frozen[i]:
            continue
        stddev = float(estimate.stddevs[i])
        off = float(estimate.values[i] - truth[i])
        found[name] = {
            "true": float(truth[i]),
            "value": float(estimate.values[i]),
            "stddev": stddev,
            "z": off / stddev if stddev > 0 else (0.0 if off == 0 else float("inf")),
            "identifiable": bool(estimate.identifiable[i]),
        }
    return found


def refit(seed: int, index: int) -> dict[str, Any]:
    """Fit 19 shots, then clock a fit of 20 that starts from the first, as after each shot of a session."""
    _, records, held_out = case(seed, index, "recovery")
    first, _, _ = fit(records[:-1], seed)
    present = _promoted(first.estimate)
    second, wall, cpu = fit(records, seed, present)
    return {
        "wall_s": wall,
        "cpu_s": cpu,
        "simulations": second.evaluations,
        "before_m": held_out.error(first.estimate.values),
        "after_m": held_out.error(second.estimate.values),
    }


def _promoted(estimate: ParameterEstimate) -> ParameterEstimate:
    return replace(estimate, revision=1)


def cancel(seed: int, index: int, shares: Sequence[float], shots: int = SHOTS) -> dict[str, Any]:
    """Cancel fits after such shares of the time that one takes; return when, and how long each took to end [s].

    Raises:
        BenchmarkError: every fit ended before it could be cancelled.
    """
    _, records, _ = case(seed, index, "recovery", shots)
    _, whole, _ = fit(records, seed)
    ended = {share * whole: _cancelled(records, seed, share * whole) for share in shares}
    known = {moment: seconds for moment, seconds in ended.items() if seconds is not None}
    if not known:
        raise BenchmarkError("every fit ended before it could be cancelled")
    return {"moments_s": list(known), "seconds": list(known.values())}


def _cancelled(records: Sequence[ShotRecord], seed: int, moment: float) -> float | None:
    """Return how long a fit took to end once it was cancelled [s]; None = it had ended before."""
    asked: list[float] = []

    def stop() -> FitError | None:
        return FitError(FitCode.CANCELED, "cancelled") if asked else None

    fitter = Fitter(TwinSimulator(table(), BALLS), FitConfig(threads=THREADS))
    timer = threading.Timer(moment, lambda: asked.append(time.perf_counter()))
    timer.start()
    try:
        fitter.fit(records, FitRequest(seed=seed), stop=stop)
        return None
    except FitError as error:
        if error.code is not FitCode.CANCELED:
            raise
        return time.perf_counter() - asked[0]
    finally:
        timer.cancel()


def curve(records: Sequence[ShotRecord], held_out: HeldOut, seed: int) -> Curve:
    """Return what CUE's fit knew when: every best that it tells of on its way, and its end."""
    found = Curve(held_out.error, 0.0, float("inf"))
    told: list[tuple[float, int, np.ndarray]] = []

    def report(progress: Progress) -> None:
        values = getattr(progress, "values", None)
        if values is not None and (not told or not np.array_equal(values, told[-1][2])):
            told.append((found.seconds, progress.evaluations, np.array(values)))

    fitter = Fitter(TwinSimulator(table(), BALLS), FitConfig(threads=THREADS))
    outcome = fitter.fit(records, FitRequest(seed=seed), report=report)
    told.append((found.seconds, outcome.evaluations, outcome.estimate.values))
    found.points = [[seconds, float(simulations), held_out.error(values)] for seconds, simulations, values in told]
    return found
