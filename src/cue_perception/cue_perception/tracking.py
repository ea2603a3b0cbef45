"""All balls over time: which detection belongs to which ball, and what became of those not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from cue_core.balls import BallState, Visibility
from cue_core.table import TableModel
from cue_perception.colours import TELLS_APART, class_costs, difference
from cue_perception.detector import Detection
from cue_perception.motion import Prediction, advance
from cue_perception.track import Sample, Track

_FASTEST = 9.0  # m/s: no ball crosses a frame faster
_COLOUR_SIGMA = 8.0  # Lab units
_FOREIGN = 34.0  # Lab units: another ball
_OTHER_SIDE = 39.0  # Lab units: as foreign as a ball counts at most that lies where it was expected ...
_THERE = 0.35  # ... to so much of a radius
_NOT_SEEN = 25.0  # cost of leaving a ball without a detection
_FIRST_FRAMES = 5  # that a ball must be seen before it gets a name
_LATER_FRAMES = 15  # the same once the table is known: arms come and go
_CLEAR_FRAMES = 6  # with cloth in view where a ball should be, before it is in the pocket that it ran to ...
_LOST_FRAMES = 20  # ... or lost; till then it is looked for all around
_LEAVES = 0.5  # m/s: no slower ball gets over a rail
_FULL_OUTLINE = 0.8  # share of the outline from which on a ball at rest may show another face
_REFOUND = 0.7  # share of the outline that a hidden ball must show to be found again elsewhere
_LEAST_LIKENESS = 60.0  # Lab units


@dataclass(eq=False)
class _Candidate:
    """Something that looks like a ball and has no name yet."""

    samples: list[Sample]
    colour: np.ndarray
    white: float
    seen: int = 1
    missed: int = 0


class BallTracker:
    """Keeps the names of the balls."""

    def __init__(self, table: TableModel, ball_ids: Sequence[int] = ()) -> None:
        """Take the ids that may lie on the table; empty = any of 0..15."""
        self.table = table
        self.ids = tuple(ball_ids) or tuple(range(16))
        self.tracks: dict[int, Track] = {}
        self.time: float | None = None
        self._candidates: list[_Candidate] = []
        self._ahead: tuple[float, Prediction] | None = None
        self.common: Callable[[np.ndarray], np.ndarray] | None = None
        """Covariance (n, 2, 2) [m^2] that all balls at (n, 2) [m] share, e.g. of the camera's pose; None = none."""

    def predict(self, time: float) -> np.ndarray:
        """Return where the balls in play are expected at ``time`` [s], (n, 2) [m], in the order of :meth:`active`."""
        return self._expected(time).position

    def active(self) -> list[Track]:
        """Return the balls that may lie or roll on the table, by id."""
        return [self.tracks[i] for i in sorted(self.tracks) if self.tracks[i].active]

    def _expected(self, time: float) -> Prediction:
        if self._ahead is not None and self._ahead[0] == time:
            return self._ahead[1]  # asked for twice: to look there, and to tell who is who
        ahead = self._predict(time)
        self._ahead = time, ahead
        return ahead

    def _predict(self, time: float) -> Prediction:
        tracks = self.active()
        position = np.array([t.mean[:2] for t in tracks]).reshape(-1, 2)
        velocity = np.array([t.mean[2:] if not t.still else np.zeros(2) for t in tracks]).reshape(-1, 2)
        dt = 0.0 if self.time is None else max(time - self.time, 0.0)
        return advance(position, velocity, dt, self.table)

    def step(
        self, time: float, detections: Sequence[Detection], cover: Callable[[np.ndarray], np.ndarray]
    ) -> list[BallState]:
        """Take the detections of one image and return all balls by id; see :meth:`update`."""
        self.update(time, detections, cover)
        return self.states()

    def update(self, time: float, detections: Sequence[Detection], cover: Callable[[np.ndarray], np.ndarray]) -> None:
        """Take the detections of one image.

        Args:
            time: of the image, later than the one before [s].
            detections: of the image.
            cover: tells how much of a ball's disc at positions (n, 2) hides the cloth, 0..1.
        """
        dt = 0.0 if self.time is None else time - self.time
        expected = self._expected(time)
        tracks = self.active()
        for k, track in enumerate(tracks):
            track.predict(expected.position[k], expected.velocity[k], bool(expected.hit[k]), dt)
        self.time, self._ahead = time, None
        pairs, costs = self._assign(tracks, expected, detections, dt)
        self._doubt(tracks, detections, pairs, costs)
        for k, j in pairs.items():
            tracks[k].update(detections[j], time, dt)
        self._unseen([k for k in range(len(tracks)) if k not in pairs], tracks, expected, cover, dt)
        self._name([d for j, d in enumerate(detections) if j not in set(pairs.values()) and d.sharp], time)

    def states(self) -> list[BallState]:
        """Return all balls by id, those that are gone included."""
        states = [self.tracks[i].state() for i in sorted(self.tracks)]
        if self.common is None or not states:
            return states
        shared = self.common(np.array([b.position for b in states]))
        return [replace(b, covariance=b.covariance + more) for b, more in zip(states, shared, strict=True)]

    def at_rest(self) -> bool:
        """Tell whether every ball in play is known to rest; one whose place shows bare cloth is not."""
        return bool(self.tracks) and all(t.still and not t.missed_clear for t in self.active())

    def _assign(
        self, tracks: list[Track], expected: Prediction, detections: Sequence[Detection], dt: float
    ) -> tuple[dict[int, int], np.ndarray]:
        n, m = len(tracks), len(detections)
        if n == 0 or m == 0:
            return {}, np.full((n, m), 1e6)
        offset = np.array([d.position for d in detections])[None] - expected.position[:, None]
        distance = np.sqrt(np.sum(offset**2, axis=-1))
        seen = np.array([d.colour for d in detections])
        faces = [face for t in tracks for face in (t.colour, *t.faces)]
        first = np.cumsum([0] + [1 + len(t.faces) for t in tracks[:-1]])
        foreign = np.minimum.reduceat(difference(seen[None], np.array(faces)[:, None]), first, axis=0)
        support = np.array([d.support for d in detections])
        sharp = np.array([d.sharp for d in detections])
        still = np.array([t.still for t in tracks])[:, None]
        missed = np.array([t.missed for t in tracks])[:, None]
        apart = distance > _FASTEST * max(dt, 0.005) * (1 + missed) + 0.01
        # A ball that rolls may show another face, where it is expected; one that was just struck is not far away yet.
        turns = ~still | (sharp & (support > _FULL_OUTLINE))
        turns &= (missed == 0) & ~expected.hit[:, None] & (distance < 0.5 * self.table.ball_radius)
        foreign = np.where(turns, np.minimum(foreign, _FOREIGN), foreign)
        # A contact may turn it, too, or cover it for an image; a whole ball just where it should be is no other one,
        # nor is one at the place where a ball rested in the image before.
        there = (~still | (missed == 0)) & sharp & (support > _REFOUND) & (distance < _THERE * self.table.ball_radius)
        foreign = np.where(there, np.minimum(foreign, _OTHER_SIDE), foreign)
        apart |= ~there & (((foreign > _FOREIGN) & (support > 0.5)) | (foreign > 1.6 * _FOREIGN))
        apart |= ~sharp & still
        # Part of an arm looks like part of a ball.
        apart |= (missed > 0) & (support < _REFOUND) & (distance > 0.4 * self.table.ball_radius)
        spread = np.array([t.covariance[:2, :2] for t in tracks])[:, None] + np.array(
            [d.covariance for d in detections]
        )
        spread[..., [0, 1], [0, 1]] += 2e-3**2
        surprise = np.sum(offset * np.linalg.solve(spread, offset[..., None])[..., 0], axis=-1)
        costs = 0.5 * np.minimum(surprise, 16.0) + distance / (0.02 + 0.002 * missed)
        costs = np.where(apart, 1e6, costs + 0.5 * (foreign / _COLOUR_SIGMA) ** 2)
        padded = np.concatenate([costs, np.full((n, n), _NOT_SEEN)], axis=1)
        rows, columns = linear_sum_assignment(padded)
        return {int(i): int(j) for i, j in zip(rows, columns, strict=True) if j < m and costs[i, j] < 1e6}, costs

    @staticmethod
    def _doubt(tracks: list[Track], detections: Sequence[Detection], pairs: dict[int, int], costs: np.ndarray) -> None:
        """Lower the confidence of two balls whose detections would fit almost as well the other way round."""
        if len(pairs) < 2:
            return
        first, second = np.array(sorted(pairs)), np.array([pairs[a] for a in sorted(pairs)])
        straight = costs[first, second]
        other_way = costs[np.ix_(first, second)]
        close = np.triu(other_way + other_way.T - straight[:, None] - straight[None] < 3.0, 1)
        for i, j in zip(*np.nonzero(close), strict=True):
            a, b = int(first[i]), int(first[j])
            if float(difference(tracks[a].colour, tracks[b].colour)) <= 12:
                other = costs[a, pairs[b]] + costs[b, pairs[a]] - costs[a, pairs[a]] - costs[b, pairs[b]]
                swapped = 1 / (1 + np.exp(max(float(other), 0.0)))
                tracks[a].confidence *= 1 - swapped
                tracks[b].confidence *= 1 - swapped

    def _unseen(
        self,
        which: list[int],
        tracks: list[Track],
        expected: Prediction,
        cover: Callable[[np.ndarray], np.ndarray],
        dt: float,
    ) -> None:
        if not which:
            return
        covered = cover(np.array([tracks[k].position for k in which]))
        for k, share in zip(which, covered, strict=True):
            track = tracks[k]
            track.miss(bool(share < 0.5), dt)
            track.entering_pocket |= bool(expected.pocket[k]) or (not track.still and self._at_pocket(track, dt))
            if track.missed_clear < (_CLEAR_FRAMES if track.entering_pocket else _LOST_FRAMES):
                continue
            left = Visibility.OFF_TABLE if self._over_the_rail(track) else Visibility.LOST
            gone = Visibility.POCKETED if track.entering_pocket else left
            track.visibility = gone
            track.mean[2:] = 0.0
            if gone == Visibility.POCKETED:
                places = np.array([p.position for p in self.table.pockets])
                track.mean[:2] = places[np.argmin(np.linalg.norm(places - track.mean[:2], axis=1))]
                track.covariance[:2, :2] = np.eye(2) * 0.25 * self.table.drop_radius**2

    def _at_pocket(self, track: Track, dt: float) -> bool:
        for pocket in self.table.pockets:
            way = pocket.position - track.position
            distance = float(np.linalg.norm(way))
            speed = float(np.linalg.norm(track.mean[2:]))
            near = distance < pocket.radius + self.table.ball_radius + 1.5 * speed * dt
            if near and (float(way @ track.mean[2:]) > 0.3 * distance * speed or distance < pocket.radius):
                return True
        return False

    def _over_the_rail(self, track: Track) -> bool:
        """Tell whether a ball that is gone was last seen at a cushion, fast, on its way out."""
        if track.still or len(track.history) < 2:
            return False
        before, last = track.history[-2], track.history[-1]
        velocity = (last.position - before.position) / max(last.time - before.time, 1e-3)
        if float(np.linalg.norm(velocity)) < _LEAVES:
            return False
        soon = last.position + velocity * 2 * (last.time - before.time)
        half = np.array([self.table.length, self.table.width]) / 2
        return bool(np.any((np.abs(soon) > half) & (soon * velocity > 0)))

    def _free_ids(self) -> list[int]:
        away = (Visibility.LOST, Visibility.OFF_TABLE)
        return [i for i in self.ids if i not in self.tracks or self.tracks[i].visibility in away]

    def _name(self, loose: list[Detection], time: float) -> None:
        """Give names to balls that have none: all at once in the beginning, later only to what stays."""
        kept: list[_Candidate] = []
        for candidate in self._candidates:
            last = candidate.samples[-1].position
            near = [d for d in loose if np.linalg.norm(d.position - last) < 0.5 * self.table.ball_radius]
            if near:
                best = min(near, key=lambda d: float(np.linalg.norm(d.position - last)))
                loose.remove(best)
                candidate.samples.append(Sample(time, best.position, best.covariance, best.support))
                candidate.colour = candidate.colour + (best.colour - candidate.colour) / (candidate.seen + 1)
                candidate.white += (best.white_share - candidate.white) / (candidate.seen + 1)
                candidate.seen += 1
                candidate.missed = 0
            else:
                candidate.missed += 1
            if candidate.missed < 3:
                kept.append(candidate)
        kept += [
            _Candidate([Sample(time, d.position, d.covariance, d.support)], d.colour, d.white_share) for d in loose
        ]
        self._candidates = kept
        needed = _LATER_FRAMES if self.tracks else _FIRST_FRAMES
        if not any(c.seen >= needed for c in kept):
            return
        ready = [c for c in kept if c.seen >= needed - (0 if self.tracks else 2)]
        ids = self._free_ids()
        if not ids:
            return
        labs = np.array([c.colour for c in ready])
        costs = class_costs(labs, np.array([c.white for c in ready]), tuple(ids))
        for column, ball_id in enumerate(ids):
            if ball_id in self.tracks:  # one that was lost is known by its own colour
                costs[:, column] = np.minimum(costs[:, column], self.tracks[ball_id].unlike(labs) - 5)
        likely = np.exp(-(costs - costs.min(axis=1, keepdims=True)) / TELLS_APART)
        likely /= likely.sum(axis=1, keepdims=True)
        costs = np.where(costs < _LEAST_LIKENESS, costs, 1e6)
        for row, column in zip(*linear_sum_assignment(costs), strict=True):
            if costs[row, column] >= 1e6:
                continue
            candidate = ready[row]
            track = self.tracks.get(ids[column])
            if track is None:
                track = self.tracks[ids[column]] = Track(ids[column], np.zeros(4), np.eye(4), candidate.colour)
                track.named = float(likely[row, column])
            track.found(candidate.samples)
            self._candidates = [c for c in self._candidates if c is not candidate]

    def to_list(self) -> list[dict[str, Any]]:
        """Return plain data from which :meth:`restore` brings the names back."""
        return [
            {
                "id": t.ball_id,
                "position": t.mean[:2].tolist(),
                "colour": t.colour.tolist(),
                "visibility": int(t.visibility),
                "confidence": float(t.confidence),
                "named": float(t.named),
            }
            for t in (self.tracks[i] for i in sorted(self.tracks))
        ]

    def restore(self, balls: Sequence[Mapping[str, Any]]) -> None:
        """Bring back the names; where the balls are now, the next images tell."""
        for ball in balls:
            mean = np.array([*ball["position"], 0.0, 0.0], float)
            # They may have rolled on meanwhile: the place is a hint, the colour a proof.
            covariance = np.diag([0.02**2, 0.02**2, 0.2**2, 0.2**2])
            track = Track(int(ball["id"]), mean, covariance, np.array(ball["colour"], float))
            track.visibility = Visibility(int(ball["visibility"]))
            track.confidence = float(ball["confidence"])
            track.named = float(ball.get("named", 1.0))
            if track.active:
                track.visibility = Visibility.OCCLUDED
                track.missed = 60  # so that the first images may find it anywhere
            self._ahead = None
            self.tracks[track.ball_id] = track
