"""From a shot record to what a rollout is compared with."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cue_core.balls import BallState
from cue_core.shots import BallTrack, ShotRecord, Stroke
from cue_identify.events import contact_times
from cue_identify.scoring import observed_rest

CUE_BALL = 0
_SIGMA_FLOOR = 3e-4  # [m] no tracker of a whole table is better, whatever it says
_SIGMA_CEILING = 0.01  # [m]
_REST_FLOOR = 3e-4  # [m] for a ball at rest, averaged over many images: what lens and shading do does not average
_STILL_SAMPLES = 4  # for a ball that stays: enough to make a predicted hit costly
_AZIMUTH_FLOOR = 4e-3  # [rad] a tip that meets the ball off its centre turns it, unseen by the joints
_LARGEST_TURN = 8.0  # [prior standard deviations] more is a track of something else
_BACKTRACK = 8  # samples from which the way back to the strike is told
_DECELERATION = (0.1, 3.5)  # [m/s^2] of a ball just struck: rolling at least, sliding on a rough cloth at most
_DISPLACED = 0.02  # [m] from where a ball should be, no tracker's noise
_LATEST_STRIKE = 5.0  # [-] standard deviations of the strike time
_HEADING = 4  # samples that tell where a ball is heading
_PARALLEL = math.radians(10.0)
_ONE_STEP = 3e-3  # [m]
_FAR_ROUND = 0.8  # [m] on a longer way a ball may come back behind its place over two cushions
_TIME_FLOOR = 3e-3  # [s] the same for the strike time


@dataclass(frozen=True)
class ShotData:
    """One shot, ready for comparison. m samples of the n balls that were in play.

    Attributes:
        record: what it was made of.
        balls: in play before the shot.
        stroke: achieved.
        turn: of the cue ball's observed direction before its first contact against the stroke's azimuth [rad]; it
            stems from the tip's offset, which no joint state shows.
        turn_prior: its standard deviation before anything is observed [rad].
        strike_stddev: of the strike time, the zero of the sample times [s].
        movers: ids of the k balls seen to move.
        mover_stddev: (k,) of their positions before the shot, along one axis [m].
        times: (T,) distinct sample times after the strike, increasing [s].
        time_index: (m,) row of ``times`` of each sample.
        ball_id: (m,) of each sample.
        observed: (m, 2) [m].
        covariance: (m, 2, 2) of them, the tracker's [m^2].
        whitener: (m, 2, 2): times a difference gives standard deviations [1/m].
        spread: (m,) standard deviation of what the replay itself may be off by; in the whitener already [m].
        free: (m,) bool, samples of the cue ball on its way to the first contact.
        contacts: (k,) observed contact times [s].
        alike: groups of sample rows, each (balls, times): balls of one colour that a tracker may have exchanged.
    """

    record: ShotRecord
    balls: tuple[BallState, ...]
    stroke: Stroke
    turn: float
    turn_prior: float
    strike_stddev: float
    movers: tuple[int, ...]
    mover_stddev: np.ndarray
    times: np.ndarray
    time_index: np.ndarray
    ball_id: np.ndarray
    observed: np.ndarray
    covariance: np.ndarray
    whitener: np.ndarray
    spread: np.ndarray
    free: np.ndarray
    contacts: np.ndarray
    alike: tuple[np.ndarray, ...] = ()

    def until(self, contacts: int | None) -> ShotData:
        """Return the same shot up to its contact number ``contacts`` (from 1); whole when there are not as many."""
        if contacts is None or len(self.contacts) < contacts:
            return self
        kept = self.times[self.time_index] <= self.contacts[contacts - 1] + 1e-9
        # Two samples make no velocity: a contact right after the strike is replayed together with the next one.
        if kept.sum() < 4:
            return self.until(contacts + 1)
        return self._only(kept)

    def widened(self, covariance: np.ndarray) -> ShotData:
        """Return the same shot with covariances (m, 2, 2) [m^2] of the replay's own error beside the tracker's."""
        spread = np.sqrt(0.5 * np.trace(covariance, axis1=1, axis2=2))
        return replace(self, whitener=_whitener(self.covariance + covariance), spread=spread)

    def _only(self, kept: np.ndarray) -> ShotData:
        used, time_index = np.unique(self.time_index[kept], return_inverse=True)
        new_row = np.cumsum(kept) - 1
        groups = []
        for rows in self.alike:
            columns = kept[rows].all(axis=0)
            if columns.any():
                groups.append(new_row[rows[:, columns]])
        return replace(
            self,
            times=self.times[used],
            time_index=time_index,
            ball_id=self.ball_id[kept],
            observed=self.observed[kept],
            covariance=self.covariance[kept],
            whitener=self.whitener[kept],
            spread=self.spread[kept],
            free=self.free[kept],
            alike=tuple(groups),
        )


def why_unusable(record: ShotRecord, ball_ids: Iterable[int]) -> str:
    """Return why a record cannot be fitted, empty when it can."""
    known = set(ball_ids)
    if record.faults:
        return "flagged " + ", ".join(record.faults)
    if record.achieved is None:
        return "no measured stroke"
    if not math.isfinite(record.achieved.tip_speed) or record.achieved.tip_speed <= 0:
        return f"measured tip speed {record.achieved.tip_speed}"
    if not any(len(track.time) for track in record.tracks):
        return "nothing moved"
    strange = sorted({ball.ball_id for ball in record.before if ball.in_play} - known)
    if strange:
        return f"balls {', '.join(map(str, strange))} are not in the twin"
    if not any(ball.ball_id == CUE_BALL and ball.in_play for ball in record.before):
        return "no cue ball before the shot"
    for track in record.tracks:
        if not (np.isfinite(track.time).all() and np.isfinite(track.position).all()):
            return f"ball {track.ball_id} has a track that is not finite"
    return _why_displaced(record)


def _why_displaced(record: ShotRecord) -> str:
    """Return why the cue ball's track cannot begin where the ball is said to have rested, empty when it can."""
    stroke: Stroke | None = record.achieved
    start: np.ndarray = next(b.position for b in record.before if b.ball_id == CUE_BALL)
    track = next((t for t in record.tracks if t.ball_id == CUE_BALL), None)
    if stroke is None or track is None:
        return ""
    after = track.time > 0
    time, way = track.time[after], track.position[after] - start
    since = time + _LATEST_STRIKE * record.strike_time_stddev
    reach = np.linalg.norm(way, axis=1)
    # No tip gives a ball more than twice its own speed.
    if len(reach) and reach[0] > 2.0 * stroke.tip_speed * since[0] + _DISPLACED:
        return f"the cue ball was seen {1e3 * reach[0]:.0f} mm from its place {time[0]:.2f} s after the strike"
    if len(time) < _HEADING or 2.0 * stroke.tip_speed * since[0] > _FAR_ROUND:
        return ""
    along = np.array([math.cos(stroke.azimuth), math.sin(stroke.azimuth)])
    step, behind = way[_HEADING - 1] - way[0], -float(way[0] @ along)
    if behind > _DISPLACED and step @ along > math.cos(_PARALLEL) * max(float(np.linalg.norm(step)), _ONE_STEP):
        return f"the cue ball came from {1e3 * behind:.0f} mm behind the place where it is said to have rested"
    return ""


def observe(record: ShotRecord, direction: float) -> ShotData:
    """Make a usable record ready for comparison.

    Args:
        record: for which :func:`why_unusable` has nothing to say.
        direction: in which the twin sends the cue ball for the achieved stroke, from +x towards +y [rad].
    """
    stroke = record.achieved
    if stroke is None:
        raise ValueError(f"shot {record.shot_id} has no measured stroke")
    balls = tuple(ball for ball in record.before if ball.in_play)
    tracks = tuple(t for t in record.tracks if len(t.time) and any(b.ball_id == t.ball_id for b in balls))
    contacts = contact_times(record)
    samples = _samples(record, balls, tracks)
    time, ball_id, observed, covariance = samples
    covariance = _sensible(covariance)
    times, time_index = np.unique(time, return_inverse=True)
    first = contacts[0] if len(contacts) else np.inf
    free = (ball_id == CUE_BALL) & (time <= first + 1e-9)
    start = next(ball.position for ball in balls if ball.ball_id == CUE_BALL)
    late, strike_stddev = _strike_time(start, time[free], observed[free], max(record.strike_time_stddev, _TIME_FLOOR))
    time, times, contacts = time - late, times - late, contacts - late
    prior = max(stroke.azimuth_stddev, _AZIMUTH_FLOOR)
    towards = _line_direction(start, observed[free], covariance[free], direction, prior)
    return ShotData(
        record=record,
        balls=balls,
        stroke=stroke,
        turn=float(np.clip(towards - direction, -_LARGEST_TURN * prior, _LARGEST_TURN * prior)),
        turn_prior=prior,
        strike_stddev=strike_stddev,
        movers=tuple(track.ball_id for track in tracks),
        mover_stddev=np.array(
            [_rest_stddev(ball) for track in tracks for ball in balls if ball.ball_id == track.ball_id]
        ),
        times=times,
        time_index=time_index,
        ball_id=ball_id,
        observed=observed,
        covariance=covariance,
        whitener=_whitener(covariance),
        spread=np.zeros(len(observed)),
        free=free,
        contacts=contacts,
        alike=_alike(balls, tracks, time, ball_id),
    )


def _samples(
    record: ShotRecord, balls: Sequence[BallState], tracks: Sequence[BallTrack]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return time (m,), ball id (m,), position (m, 2) and covariance (m, 2, 2) of every sample from the strike on."""
    time, ball_id, position, covariance = [], [], [], []

    def add(ball: int, t: np.ndarray, p: np.ndarray, c: np.ndarray) -> None:
        time.append(t)
        ball_id.append(np.full(len(t), ball))
        position.append(p)
        covariance.append(c)

    for track in tracks:
        after = (track.time > 0) & np.isfinite(track.covariance).all(axis=(1, 2))
        add(track.ball_id, track.time[after], track.position[after], track.covariance[after])
    end = max((float(track.time[-1]) for track in tracks), default=0.0)
    rest = observed_rest(record)
    tracked = {track.ball_id for track in tracks}
    for ball in balls:
        if ball.ball_id in tracked or ball.ball_id not in rest or end <= 0:
            continue
        t = end * np.arange(1, _STILL_SAMPLES + 1) / _STILL_SAMPLES
        where = np.tile(rest[ball.ball_id], (_STILL_SAMPLES, 1))
        add(ball.ball_id, t, where, np.tile(ball.covariance, (_STILL_SAMPLES, 1, 1)))
    return np.concatenate(time), np.concatenate(ball_id), np.concatenate(position), np.concatenate(covariance)


def _rest_stddev(ball: BallState) -> float:
    return float(np.clip(np.sqrt(0.5 * np.trace(ball.covariance)), _REST_FLOOR, _SIGMA_CEILING))


def _sensible(covariance: np.ndarray) -> np.ndarray:
    """Return covariances (m, 2, 2) with their eigenvalues kept within sense."""
    values, vectors = np.linalg.eigh(covariance)
    kept = np.clip(values, _SIGMA_FLOOR**2, _SIGMA_CEILING**2)
    return (vectors * kept[:, None, :]) @ np.swapaxes(vectors, 1, 2)


def _whitener(covariance: np.ndarray) -> np.ndarray:
    """Return (m, 2, 2) inverse square roots of sensible covariances."""
    values, vectors = np.linalg.eigh(covariance)
    return np.swapaxes(vectors, 1, 2) / np.sqrt(values)[:, :, None]


def _line_direction(
    start: np.ndarray, points: np.ndarray, covariance: np.ndarray, prior: float, prior_stddev: float
) -> float:
    """Return the direction [rad] of the ray from ``start`` (2,) through points (k, 2), with a prior."""
    along = np.array([math.cos(prior), math.sin(prior)])
    across = np.array([-along[1], along[0]])
    reach = (points - start) @ along
    variance = np.maximum(np.einsum("i,kij,j->k", across, covariance, across), _SIGMA_FLOOR**2)
    far = reach > 0.01
    weight = np.sum(reach[far] ** 2 / variance[far])
    moment = np.sum(reach[far] * ((points - start) @ across)[far] / variance[far])
    return prior + float(moment / (weight + 1.0 / prior_stddev**2))


def _strike_time(start: np.ndarray, time: np.ndarray, points: np.ndarray, stddev: float) -> tuple[float, float]:
    """Return how much later than the record says the strike was, and its standard deviation [s].

    The record is believed unless the cue ball's way back to its place of rest contradicts it clearly: an arm may hide
    the ball until long after the strike.

    Args:
        start: (2,) rest position of the cue ball [m].
        time: (k,) of its samples before the first contact, by the record [s].
        points: (k, 2) [m].
        stddev: of the record's strike time [s].
    """
    reach = np.linalg.norm(points - start, axis=1)
    moving = np.flatnonzero(reach > 0.01)[:_BACKTRACK]
    if len(moving) < 4:
        return 0.0, stddev
    t, d = time[moving], reach[moving]
    ends = []
    for deceleration in (_DECELERATION[0], *_DECELERATION):
        slope, level = np.polyfit(t - t[0], d + 0.5 * deceleration * (t - t[0]) ** 2, 1)
        root = slope**2 + 2 * deceleration * level  # squared speed at the strike
        if slope <= 0 or root < 0:
            return 0.0, stddev
        ends.append(t[0] - 2 * level / (slope + math.sqrt(root)))
    late, spread = float(np.mean(ends[1:])), 0.5 * float(np.ptp(ends)) + 0.003
    if abs(late) <= 4 * math.hypot(stddev, spread):
        return 0.0, stddev
    return late, spread


def _alike(
    balls: Sequence[BallState], tracks: Sequence[BallTrack], time: np.ndarray, ball_id: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Group the sample rows of moving balls of one colour, where they have common times: rows (balls, times)."""
    tracked = {track.ball_id for track in tracks}
    coloured = sorted((b for b in balls if b.colour and b.ball_id in tracked), key=lambda b: (b.colour, b.ball_id))
    groups = []
    for _, same in itertools.groupby(coloured, key=lambda b: b.colour):
        rows = [np.flatnonzero(ball_id == b.ball_id) for b in same]
        if len(rows) < 2:
            continue
        common = sorted(set.intersection(*(set(time[r].tolist()) for r in rows)))
        if common:
            groups.append(np.stack([r[np.searchsorted(time[r], common)] for r in rows]))
    return tuple(groups)
