"""The benchmark: fit on one half of the recorded shots, score on the other, both ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cue_core.errors import CueError
from cue_identify.real_shots.baselines import fit_mirror, mirror
from cue_identify.real_shots.fitting import FitConfig, fit
from cue_identify.real_shots.model import MatchModel
from cue_identify.real_shots.recording import RecordedShot, read_shots
from cue_identify.real_shots.score import TrackScore, score_tracks, summarise
from cue_identify.real_shots.tracks import Track, extract_tracks
from cue_identify.real_shots.watched import watch

Progress = Callable[[float, str], None]


class TooFewTracksError(CueError):
    """A half of the recording has not enough tracks to fit or to score."""

    def __init__(self, half: str, count: int, needed: int) -> None:
        """Say which half and how many."""
        super().__init__(f"the {half} half has {count} object-ball tracks, needs at least {needed}")


class UnwatchedError(CueError):
    """No track of a half can be scored in mode B."""

    def __init__(self, fitted: str) -> None:
        """Say which half was fitted."""
        super().__init__(f"fitted on the {fitted} half, no track of the other one has samples after its first rebound")


_BOOTSTRAPS = 2000
_DRAWN = 60  # points of a path in a picture

LEAST_TRACKS = 5
"""In a half: fewer leave terms to belief alone."""


def halves(shots: Sequence[RecordedShot]) -> tuple[frozenset[int], frozenset[int]]:
    """Return the ids of the two halves: every other shot in the order of the match.

    So both see the same cloth, heat and players; and all tracks of a shot are in the same half.
    """
    ids = sorted(shot.shot_id for shot in shots)
    return frozenset(ids[0::2]), frozenset(ids[1::2])


def benchmark(
    path: Path | str,
    cushion_law: str = "coulomb",
    seed: int = 0,
    progress: Progress | None = None,
    config: FitConfig | None = None,
    threads: int | None = None,
) -> dict[str, Any]:
    """Score a cushion law on recorded shots.

    The half that is scored takes no part in the fit; see the package's description for tracks, terms and cost.

    Args:
        path: of a recording, see :mod:`cue_identify.real_shots.recording`.
        cushion_law: a name of ``cue_sim.laws.available("cushion")``.
        seed: of restarts and bootstrap; one seed gives one result.
        progress: told the share done, 0..1, and what is being done.
        config: of the fits.
        threads: None = one per CPU core; the result is the same.

    Returns:
        Plain data: ``median_mm``, the mean of the two halves' medians over tracks of the mean position error, and
        ``mode_b_mm``, the same where tracks were watched until 0.4 s after their first rebound (:mod:`.watched`);
        ``medians_mm``, ``means_mm`` and ``last_medians_mm`` of each half scored; ``tracks`` and ``refused`` (reasons
        and counts); ``halves``, with for each the fitted values, the cost, the scores, the score of the fitted half,
        and those of baselines: the twin before the fit, and :mod:`.baselines`.

    Raises:
        FileFormatError: the recording is malformed.
        UnknownNameError: no such law.
        TooFewTracksError: a half has too few tracks.
        UnwatchedError: none of a half rebounds.
    """
    model = MatchModel(cushion_law, threads)
    shots = read_shots(path)
    tracks, refused = extract_tracks(shots)
    sides = [[track for track in tracks if track.shot_id in ids] for ids in halves(shots)]
    names = ("even", "odd")
    for name, side in zip(names, sides, strict=True):
        if len(side) < LEAST_TRACKS:
            raise TooFewTracksError(name, len(side), LEAST_TRACKS)
    results = []
    for index, name in enumerate(names):
        told = _part(progress, index, f"{cushion_law}: fit on the {name} shots")
        results.append(_half(model, name, sides[index], sides[1 - index], seed, told, config))
    if progress is not None:
        progress(1.0, f"{cushion_law}: done")
    scored = [result["scored"] for result in results]
    return {
        "cushion_law": cushion_law,
        "median_mm": _mean(scored, "median_mm"),
        "mode_b_mm": _mean([result["mode_b"] for result in results], "median_mm"),
        "median_95_mm": _interval([[t["mean_mm"] for t in r["tracks"]] for r in results], seed),
        "mode_b_95_mm": _interval(
            [[t["mode_b_mm"] for t in r["tracks"] if t["mode_b_mm"] is not None] for r in results], seed
        ),
        "medians_mm": [s["median_mm"] for s in scored],
        "means_mm": [s["mean_mm"] for s in scored],
        "last_medians_mm": [s["last_median_mm"] for s in scored],
        "mode_b_medians_mm": [result["mode_b"]["median_mm"] for result in results],
        "mode_b_means_mm": [result["mode_b"]["mean_mm"] for result in results],
        "tracks": len(tracks),
        "refused": refused,
        "seed": seed,
        "halves": results,
    }


def _half(
    model: MatchModel,
    name: str,
    known: Sequence[Track],
    unseen: Sequence[Track],
    seed: int,
    progress: Callable[[float], None] | None,
    config: FitConfig | None,
) -> dict[str, Any]:
    found = fit(model, known, np.random.default_rng(seed), config, progress)
    start = np.array([term.start for term in model.terms])
    predicted = model.predict(unseen, found.values)
    seen = watch(model, unseen, found.values)
    if not seen.tracks:
        raise UnwatchedError(name)
    scores, watched = score_tracks(unseen, predicted), score_tracks(seen.tracks, seen.predicted)

    def summary(scores: Sequence[TrackScore]) -> dict[str, Any]:
        return summarise(scores, np.random.default_rng(seed))

    return {
        "fitted_on": name,
        "fitted": {
            term.name: {"value": float(value), "unit": term.unit}
            for term, value in zip(model.terms, found.values, strict=True)
        },
        "at_limit": [
            term.name
            for term, value in zip(model.terms, found.values, strict=True)
            if min(value - term.low, term.high - value) < 1e-3 * (term.high - term.low)
        ],
        "cost": round(found.cost, 4),
        "evaluations": found.evaluations,
        "scored": summary(scores),
        "mode_b": summary(watched),
        "known": summary(score_tracks(known, model.predict(known, found.values))),
        "unfitted": summary(score_tracks(unseen, model.predict(unseen, start))),
        "mirror": summary(score_tracks(unseen, mirror(unseen, fit_mirror(known)))),
        "tracks": _tracks(scores, watched, predicted),
    }


def _tracks(
    scores: Sequence[TrackScore], watched: Sequence[TrackScore], predicted: Sequence[np.ndarray]
) -> list[dict[str, Any]]:
    """Return one entry a track: errors, and thinned paths for pictures."""
    later = {(score.track.shot_id, score.track.ball): score for score in watched}
    entries = []
    for score, path in zip(scores, predicted, strict=True):
        track = score.track
        thin = np.unique(np.linspace(0, len(path) - 1, _DRAWN).astype(int))
        other = later.get((track.shot_id, track.ball))
        entries.append(
            {
                "shot": track.shot_id,
                "ball": track.ball,
                "travel_m": round(track.travel, 3),
                "rebounds": len(track.rebounds),
                "mean_mm": round(1e3 * score.mean, 2),
                "last_mm": round(1e3 * score.last, 2),
                "mode_b_mm": None if other is None else round(1e3 * other.mean, 2),
                "seen": track.positions[thin].round(4).tolist(),
                "predicted": path[thin].round(4).tolist(),
            }
        )
    return entries


def _interval(halves: Sequence[Sequence[float]], seed: int) -> list[float]:
    """Return the bootstrap 95 % interval of the mean of both halves' medians, of what either holds."""
    rng = np.random.default_rng(seed)
    medians = [
        np.median(np.array(values)[rng.integers(0, len(values), (_BOOTSTRAPS, len(values)))], axis=1)
        for values in halves
    ]
    return [round(float(v), 2) for v in np.percentile(np.mean(medians, axis=0), [2.5, 97.5])]


def _mean(summaries: Sequence[dict[str, Any]], key: str) -> float:
    return round(float(np.mean([summary[key] for summary in summaries])), 2)


def _part(progress: Progress | None, index: int, text: str) -> Callable[[float], None] | None:
    if progress is None:
        return None
    return lambda done: progress((index + done) / 2, text)
