"""Shots in pieces: what each ball did between two contacts, with the state in which it began each piece.

A piece needs no stroke: its start is observed. So it also tells with what stroke a shot began that nobody measured, as
in recordings of other people's games.

>>> [piece.velocity for piece in segments(record) if not piece.excluded]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cue_core.balls import BallState
from cue_core.parameters import PARAMETERS
from cue_core.shots import BallTrack, ShotRecord, Stroke
from cue_identify.events import ball_contacts

_CUE_BALL = 0
_OF_THE_TIP = ("tip_restitution", "azimuth_bias")
_FEWEST = 5  # [-] samples that make a state: three unknowns, and two to see that they lie on a curve
_LONGEST_FIT = 0.25  # [s] on which friction may count as constant
_GAP = 3.5  # [-] sampling times without a sample, after which nobody knows what happened
_LOOKALIKE = 1.5  # [-] ball diameters between two balls of one colour, below which a tracker may exchange them
_POOR = 4.0  # [-] mean square residual, in standard deviations, from which a piece is none
_NOISE_FLOOR = 3e-4  # [m]
_SLOWEST = 0.05  # [m/s] that tells a direction
_UNKNOWN_HIT = (
    0.05  # [-] relative standard deviation of the speed that an unmeasured tip gives: spin slows or speeds it
)


@dataclass(frozen=True)
class Segment:
    """One ball between two contacts.

    Attributes:
        ball_id: of the ball.
        begin: after the record's strike time [s].
        end: of the last sample [s].
        rows: (k,) of its track's samples.
        position: (2,) at the beginning [m].
        velocity: (2,) at the beginning [m/s].
        acceleration: (2,) in the mean of the fitted samples [m/s^2].
        covariance: (4, 4) of position and velocity.
        excluded: why the piece tells nothing; empty = it does.
    """

    ball_id: int
    begin: float
    end: float
    rows: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    covariance: np.ndarray
    excluded: str = ""


def segments(record: ShotRecord, ball_radius: float = 0.0) -> list[Segment]:
    """Return the pieces of all balls of a record, ball by ball in order of time.

    Args:
        record: with tracks.
        ball_radius: to tell when two balls of one colour come close; 0 = do not look [m].
    """
    starts = {ball.ball_id: ball for ball in record.before}
    found = []
    for track in record.tracks:
        if not len(track.time):
            continue
        start = starts.get(track.ball_id)
        where = track.position[0] if start is None else start.position
        cuts = np.array(ball_contacts(track, where))
        after = np.flatnonzero(track.time > 0.0)
        # A cut is the last sample before a contact; the contact itself lies between it and the next.
        for rows in np.split(after, np.searchsorted(track.time[after], cuts, side="right")):
            if len(rows):
                found.append(_segment(track, rows, _lookalikes(record, starts, track, ball_radius)))
    return found


def _segment(track: BallTrack, rows: np.ndarray, close: np.ndarray) -> Segment:
    time, begin, end = track.time[rows], float(track.time[rows[0]]), float(track.time[rows[-1]])
    nothing = Segment(
        track.ball_id, begin, end, rows, track.position[rows[0]], np.zeros(2), np.zeros(2), np.full((4, 4), np.inf)
    )
    if len(rows) < _FEWEST:
        return replace(nothing, excluded=f"only {len(rows)} samples between two contacts")
    if close[rows].any():
        return replace(nothing, excluded="near a ball of the same colour: the tracker may have exchanged them")
    step = np.diff(time)
    if step.max() > _GAP * float(np.median(np.diff(track.time))):
        return replace(nothing, excluded=f"unseen for {step.max():.2f} s")
    some = rows[time <= max(begin + _LONGEST_FIT, float(time[_FEWEST - 1]))]
    t = track.time[some] - begin
    sigma = np.sqrt(np.maximum(0.5 * np.trace(track.covariance[some], axis1=1, axis2=2), _NOISE_FLOOR**2))
    design = np.column_stack([np.ones_like(t), t, 0.5 * t**2]) / sigma[:, None]
    unscaled = np.linalg.inv(design.T @ design)
    curve = unscaled @ design.T @ (track.position[some] / sigma[:, None])
    left = track.position[some] / sigma[:, None] - design @ curve
    misfit = float(np.sum(left**2)) / (2 * max(len(some) - 3, 1))
    covariance = np.kron(unscaled[:2, :2], np.eye(2))  # both axes are measured alike
    piece = replace(nothing, position=curve[0], velocity=curve[1], acceleration=curve[2], covariance=covariance)
    return replace(piece, excluded=f"no smooth path: {misfit:.1f} times the noise") if misfit > _POOR else piece


def _lookalikes(record: ShotRecord, starts: dict[int, BallState], track: BallTrack, ball_radius: float) -> np.ndarray:
    """Tell (n,) at which samples another ball of the track's colour is close by."""
    close = np.zeros(len(track.time), bool)
    own = starts.get(track.ball_id)
    if own is None or not own.colour or ball_radius <= 0:
        return close
    paths = {other.ball_id: other for other in record.tracks if len(other.time)}
    for ball in record.before:
        if ball.ball_id == own.ball_id or ball.colour != own.colour:
            continue
        path = paths.get(ball.ball_id)
        if path is None:
            where = np.tile(ball.position, (len(track.time), 1))
        else:
            where = np.column_stack([np.interp(track.time, path.time, path.position[:, k]) for k in range(2)])
        close |= np.linalg.norm(where - track.position, axis=1) < 2 * _LOOKALIKE * ball_radius
    return close


def infer_stroke(record: ShotRecord) -> Stroke | None:
    """Return the stroke that the cue ball's first piece tells of; None = it tells too little.

    Its speed is that of a tip of nominal restitution: a fit learns the cloth and the cushions from such shots, but
    nothing of the tip.
    """
    first = next((piece for piece in segments(record) if piece.ball_id == _CUE_BALL), None)
    if first is None or first.excluded:
        return None
    # The strike was at time zero, or a little before or after: the piece's deceleration leads back to it.
    velocity = first.velocity - first.acceleration * first.begin
    speed = float(np.linalg.norm(velocity))
    if speed < _SLOWEST:
        return None
    start = next((ball.position for ball in record.before if ball.ball_id == _CUE_BALL), first.position)
    spread = first.covariance[2, 2]  # [m^2/s^2] along any direction
    azimuth = math.atan2(*velocity[::-1])
    way = first.position + first.velocity * (first.end - first.begin) - start
    if np.linalg.norm(way) > speed * 0.05 > 0:  # the way from its place tells the direction better
        azimuth = math.atan2(way[1], way[0])
    share = 1.0 + PARAMETERS["tip_restitution"].nominal
    relative = math.hypot(_UNKNOWN_HIT, math.sqrt(spread) / speed)
    return Stroke(speed / share, azimuth, relative * speed / share, max(math.sqrt(spread) / speed, math.radians(0.5)))


def with_strokes(records: Sequence[ShotRecord]) -> tuple[list[ShotRecord], tuple[str, ...]]:
    """Return the records, with inferred strokes where not a single one was measured: recordings from elsewhere.

    Among measured strokes an inferred one would take part in judging the tip, of which it knows nothing: there, shots
    without a stroke stay as they are. The names of parameters that inferred strokes tell nothing of are returned too.
    """
    if not records or any(record.achieved is not None for record in records):
        return list(records), ()
    return [replace(record, achieved=infer_stroke(record)) for record in records], _OF_THE_TIP
