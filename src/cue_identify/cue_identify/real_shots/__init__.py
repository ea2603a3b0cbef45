"""Recorded shots of a real match: how well the twin's laws explain what struck balls did.

A *track* is a ball that was struck, from 0.1 s after the hit until it may touch another ball; the cue ball's spin is
unknown. Its state at the start is measured on the first 0.3 s (:mod:`.tracks`), and its spin from the angle by which
the hit threw it off the line of centres (:mod:`.model`). Samples later than that are scored. A dozen physical terms
(:mod:`.terms`) are fitted on half of the shots and scored on the other half, both ways (:mod:`.cross_check`).

>>> result = benchmark("visible.jsonl.gz", cushion_law="mathavan2010")
>>> result["median_mm"]
"""

from cue_identify.real_shots.cross_check import TooFewTracksError, benchmark, halves
from cue_identify.real_shots.fitting import Fit, FitConfig, fit
from cue_identify.real_shots.model import MatchModel
from cue_identify.real_shots.recording import MATCH_TABLE, BallPath, RecordedShot, read_shots
from cue_identify.real_shots.score import TrackScore, score_tracks, summarise
from cue_identify.real_shots.terms import TERMS, Term, terms_of
from cue_identify.real_shots.tracks import Striker, Track, extract_tracks

__all__ = [
    "MATCH_TABLE",
    "TERMS",
    "BallPath",
    "Fit",
    "FitConfig",
    "MatchModel",
    "RecordedShot",
    "Striker",
    "Term",
    "TooFewTracksError",
    "Track",
    "TrackScore",
    "benchmark",
    "extract_tracks",
    "fit",
    "halves",
    "read_shots",
    "score_tracks",
    "summarise",
    "terms_of",
]
