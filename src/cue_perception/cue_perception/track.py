"""One ball over time: filter, rest detection, visibility."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cue_core.balls import BallState, Motion, Visibility, ball_colour
from cue_perception.colours import difference
from cue_perception.detector import Detection
from cue_perception.smooth import Stretch, fit_stretch

WINDOW = 0.36
"""How long a ball must hold still to be at rest [s]."""
_REST_SPEED = 0.005  # m/s
_ACCELERATION = 3.0  # m/s^2, one sigma: sliding friction and swerve
_HISTORY = 4096  # samples: two minutes at 30 a second
_IMPLAUSIBLE = 0.006  # m: no ball leaves a straight path by more between two images, but at a contact
_HIDDEN_SHIFT = 0.008  # m: whatever covers part of a ball can shift its measured centre by some of this
_STRETCHES = (14, 9, 6, 4)
"""So many newest measurements are tried as one smooth stretch of the path, until some are."""
_LASTING = 0.6  # share of a measurement's covariance that the next ones share: shading, lens, pose
_SETTLE_EVERY = 4  # images: the mean of many measurements changes little from one to the next
_OTHER_FACE = 16.0  # Lab units: a number or a stripe has turned into view
_MOST_FACES = 4
FULL = 0.8
"""Share of the outline from which on a ball counts as unobstructed."""
_ROLLING_FULL = 0.7  # the same for the faces of a ball that rolls: a stripe has edges of its own


class Sample(NamedTuple):
    """One raw measurement of a ball."""

    time: float
    position: np.ndarray
    covariance: np.ndarray
    support: float


@dataclass(eq=False)
class Track:
    """A ball with a name.

    Attributes:
        ball_id: 0..15.
        mean: (4,) x, y [m], vx, vy [m/s].
        covariance: (4, 4).
        colour: (3,) CIE Lab of its paint as seen so far.
        still: at rest, confirmed.
        known: false until its motion has been judged once.
        confidence: that it was not confused with another ball since it got its name, 0..1.
        named: that its name was right in the beginning, 0..1.
        history: raw measurements, newest last.
        faces: (3,) Lab colours that it has shown besides ``colour``: a stripe turns in and out of view.
        turned: when it last met something, as far as that is known [s].
    """

    ball_id: int
    mean: np.ndarray
    covariance: np.ndarray
    colour: np.ndarray
    still: bool = False
    known: bool = False
    visibility: Visibility = Visibility.VISIBLE
    confidence: float = 1.0
    named: float = 1.0
    missed: int = 0
    missed_clear: int = 0
    entering_pocket: bool = False
    still_since: float = 0.0
    history: deque[Sample] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    faces: list[np.ndarray] = field(default_factory=list)
    turned: float = -np.inf
    _anchor: deque[Sample] = field(default_factory=lambda: deque(maxlen=45))
    _away: list[np.ndarray] = field(default_factory=list)
    _met: bool = False
    _unsettled: int = 0

    @property
    def active(self) -> bool:
        """True while the ball may lie or roll on the table."""
        return self.visibility in (Visibility.VISIBLE, Visibility.OCCLUDED)

    @property
    def position(self) -> np.ndarray:
        """Return (2,) [m]."""
        return self.mean[:2]

    def unlike(self, lab: np.ndarray) -> np.ndarray:
        """Return how far Lab colours (..., 3) are from the nearest that this ball has shown."""
        return np.asarray(np.min([difference(lab, face) for face in (self.colour, *self.faces)], axis=0))

    def predict(self, position: np.ndarray, velocity: np.ndarray, hit: bool, dt: float) -> None:
        """Move the filter on by ``dt`` [s] to an expected state."""
        if self.still:
            return
        step = np.eye(4)
        step[0, 2] = step[1, 3] = dt
        g = np.array([dt * dt / 2, dt])
        noise = np.kron(np.outer(g, g), np.eye(2)) * _ACCELERATION**2
        self.covariance = step @ self.covariance @ step.T + noise
        self._met |= hit
        if hit:
            speed2 = float(self.mean[2:] @ self.mean[2:])
            self.covariance += np.diag([speed2 * (0.5 * dt) ** 2] * 2 + [0.5 * speed2] * 2)
        self.mean = np.concatenate([position, velocity])

    def update(self, detection: Detection, time: float, dt: float) -> None:
        """Take a measurement."""
        sample = Sample(time, detection.position, detection.covariance, detection.support)
        self.history.append(sample)
        self.missed = self.missed_clear = 0
        self.entering_pocket = False
        self.visibility = Visibility.VISIBLE
        if detection.support > (FULL if self.still else _ROLLING_FULL):
            self._look(detection.colour)
        if self.still:
            self._watch(sample, dt)
            return
        self._correct(sample, dt)
        self._smooth(sample)
        self._met = False
        self._judge_rest(time)

    def _look(self, colour: np.ndarray) -> None:
        """Learn the colours of the faces that this ball shows."""
        known = [self.colour, *self.faces]
        apart = [float(difference(colour, face)) for face in known]
        k = int(np.argmin(apart))
        if apart[k] > _OTHER_FACE and not self.still:
            self.faces = [*self.faces[-(_MOST_FACES - 2) :], colour]
        elif k == 0:
            self.colour = self.colour + 0.05 * (colour - self.colour)
        else:
            self.faces[k - 1] = self.faces[k - 1] + 0.05 * (colour - self.faces[k - 1])

    def _smooth(self, sample: Sample) -> None:
        """Take position and velocity from the smooth stretch of path that ends in the newest measurement."""
        recent: list[Sample] = []
        for known in reversed(self.history):
            if known.time < self.turned or len(recent) == _STRETCHES[0]:
                break
            recent.append(known)
        recent.reverse()
        time = np.array([s.time for s in recent])
        position = np.array([s.position for s in recent]).reshape(-1, 2)
        covariance = np.array([s.covariance for s in recent]).reshape(-1, 2, 2)
        for rolling, least in ((True, 6), (False, 4)):
            for count in _STRETCHES:
                if count < least or (count > len(recent) and count != _first_below(len(recent))):
                    continue
                part = slice(max(len(recent) - count, 0), None)
                if len(time[part]) < least:
                    continue
                stretch = fit_stretch(time[part], position[part], covariance[part], sample.time, rolling)
                if stretch.likely:
                    self._believe(stretch)
                    if count < len(recent):
                        self.turned = max(self.turned, float(time[part][0]) - 1e-9) if not rolling else self.turned
                    return

    def _believe(self, stretch: Stretch) -> None:
        self.mean = np.concatenate(stretch.coefficients[:2])
        self.covariance = stretch.covariance[:4, :4].copy()
        self.covariance[:2, :2] += _LASTING * self.history[-1].covariance

    def _correct(self, sample: Sample, dt: float) -> None:
        innovation = sample.position - self.mean[:2]
        spread = self.covariance[:2, :2] + sample.covariance
        if float(innovation @ np.linalg.solve(spread, innovation)) > 16 and dt > 0:
            # A contact that was not foreseen: believe the place, ask the next frames for the velocity.
            previous = self.history[-2] if len(self.history) > 1 else None
            guess = self.mean[2:]
            if previous is not None and 0 < sample.time - previous.time < 3 * dt:
                guess = (sample.position - previous.position) / (sample.time - previous.time)
            self.turned = sample.time - 1e-9
            self.mean = np.concatenate([sample.position, guess])
            wide = max(0.3, float(np.linalg.norm(guess))) ** 2
            self.covariance = np.diag([0, 0, wide, wide])
            self.covariance[:2, :2] = sample.covariance
            return
        if self._met:
            self.turned = sample.time - 1e-9
        gain = np.linalg.solve(spread, self.covariance[:2, :]).T
        self.mean = self.mean + gain @ innovation
        rest = np.eye(4)
        rest[:, :2] -= gain
        self.covariance = rest @ self.covariance @ rest.T + gain @ sample.covariance @ gain.T

    def _judge_rest(self, time: float) -> None:
        recent = []
        for sample in reversed(self.history):
            if time - sample.time > WINDOW + 1e-6:
                break
            if sample.support > 0:
                recent.append(sample)
        recent.reverse()
        if len(recent) < 5 or time - recent[0].time < 0.8 * WINDOW:
            return
        self.known = True
        t = np.array([s.time for s in recent]) - recent[0].time
        x = np.array([s.position for s in recent])
        design = np.column_stack([np.ones_like(t), t - t.mean()])
        fit = np.linalg.lstsq(design, x, rcond=None)[0]
        jitter = float(np.sqrt(np.mean((x - design @ fit) ** 2) * len(t) / (len(t) - 2)))
        slope_sigma = jitter / float(np.sqrt(np.sum((t - t.mean()) ** 2)))
        speed = float(np.linalg.norm(fit[1]))
        if speed < max(_REST_SPEED, min(2.5 * slope_sigma, 2.5 * _REST_SPEED)) and jitter < 2e-3:
            self.rest(recent)

    def found(self, samples: list[Sample]) -> None:
        """Take up again a ball that was lost; what is known of its last rest stays until it rests again."""
        self.visibility = Visibility.VISIBLE
        self.still = self.known = False
        self.missed = self.missed_clear = 0
        self.mean = np.concatenate([samples[-1].position, np.zeros(2)])
        self.covariance = np.diag([0, 0, 0.01, 0.01])
        self.covariance[:2, :2] = samples[-1].covariance
        self.history.extend(samples)

    def rest(self, samples: list[Sample]) -> None:
        """Declare the ball at rest where the samples say."""
        self.still, self.known = True, True
        self.still_since = samples[-1].time
        self._anchor.clear()
        self._anchor.extend(samples)
        self._away = []
        self._settle()

    def _settle(self) -> None:
        self._unsettled = 0
        position, covariance = mean_of(list(self._anchor))
        self.mean = np.concatenate([position, np.zeros(2)])
        self.covariance = np.zeros((4, 4))
        self.covariance[:2, :2] = covariance
        self.covariance[2:, 2:] = np.eye(2) * 1e-6

    def _watch(self, sample: Sample, dt: float) -> None:
        """Look whether a ball at rest has begun to move."""
        offset = sample.position - self.mean[:2]
        distance = float(np.linalg.norm(offset))
        full = sample.support > FULL
        if distance > 0.0012 and distance > (4.5 * self.jitter() if full else _HIDDEN_SHIFT):
            if self._away and float(self._away[-1] @ offset) <= 0:
                self._away = []
            self._away.append(offset)
            if (full and distance > max(0.0025, 8 * self.jitter())) or len(self._away) >= (2 if full else 3):
                self._start(sample, dt)
            return
        self._away = []
        if full:
            self._anchor.append(sample)
            self._unsettled += 1
            if self._unsettled >= _SETTLE_EVERY:
                self._settle()

    def _start(self, sample: Sample, dt: float) -> None:
        self.still = False
        self._away = []
        before = self.mean[:2]
        since = self._anchor[-1].time if self._anchor else sample.time - dt  # it may have been hidden meanwhile
        self.turned = sample.time - 1e-9
        velocity = (sample.position - before) / max(sample.time - since, dt, 1e-3)
        wide = max(0.2, float(np.linalg.norm(velocity))) ** 2
        self.mean = np.concatenate([sample.position, velocity])
        self.covariance = np.diag([0, 0, wide, wide])
        self.covariance[:2, :2] = sample.covariance

    def jitter(self) -> float:
        """Return the scatter of measurements of this ball at rest, per axis [m]."""
        if len(self._anchor) < 4:
            return 3e-4
        x = np.array([s.position for s in self._anchor])
        return max(float(np.sqrt(np.mean(np.var(x, axis=0)))), 1e-4)

    def rest_state(self, since: float = -np.inf, until: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
        """Return position (2,) and covariance (2, 2) averaged over measurements at rest within a time span."""
        chosen = [s for s in self._anchor if since <= s.time <= until] or list(self._anchor)
        return mean_of(chosen) if chosen else (self.mean[:2].copy(), self.covariance[:2, :2].copy())

    def miss(self, clear: bool, dt: float) -> None:
        """Note a frame without a measurement; ``clear``: the cloth was seen where the ball should be."""
        self.missed += 1
        self.missed_clear = self.missed_clear + 1 if clear else 0
        self.visibility = Visibility.OCCLUDED
        if self.still:  # whatever hides it may also push it
            self.covariance[:2, :2] += np.eye(2) * (2e-4) ** 2 * (dt / 0.033)

    def trail(self, since: float) -> np.ndarray:
        """Return the places (n, 2) [m] seen since a time [s]."""
        return np.array([s.position for s in self.history if s.time >= since]).reshape(-1, 2)

    def motion(self) -> Motion:
        """Return what the ball does."""
        if self.visibility == Visibility.POCKETED:
            return Motion.POCKETED
        if not self.known and not self.still:
            return Motion.UNKNOWN
        return Motion.STATIONARY if self.still else Motion.MOVING

    def state(self) -> BallState:
        """Return what is known of the ball now."""
        moving = not self.still and self.known and self.active
        return BallState(
            ball_id=self.ball_id,
            position=self.mean[:2].copy(),
            covariance=self.covariance[:2, :2].copy(),
            velocity=self.mean[2:].copy() if moving else np.zeros(2),
            velocity_covariance=self.covariance[2:, 2:].copy(),
            motion=self.motion(),
            visibility=self.visibility,
            colour=ball_colour(self.ball_id)[0],
            identity_confidence=float(self.confidence * self.named),
        )


def _first_below(count: int) -> int:
    """Return the smallest of the tried numbers of measurements that is not below what there is."""
    return min((n for n in _STRETCHES if n >= count), default=_STRETCHES[0])


def plausible(samples: list[Sample]) -> list[Sample]:
    """Return samples without those that no straight stretch of the path explains: an arm's edge taken for the ball's.

    A contact turns the path, so it is enough that a sample fits the two before it, the two after it, or its neighbours.
    """
    kept: list[Sample] = []
    for k, sample in enumerate(samples):
        offsets = []
        for near, far in ((kept[-1:], kept[-2:-1]), (samples[k + 1 : k + 2], samples[k + 2 : k + 3])):
            if near and far:
                step = (near[0].position - far[0].position) / (near[0].time - far[0].time)
                offsets.append(near[0].position + step * (sample.time - near[0].time) - sample.position)
        if kept and k + 1 < len(samples):
            before, after = kept[-1], samples[k + 1]
            share = (sample.time - before.time) / (after.time - before.time)
            offsets.append(before.position + share * (after.position - before.position) - sample.position)
        reach = _IMPLAUSIBLE + 4 * float(np.sqrt(np.trace(sample.covariance)))
        if not offsets or min(float(np.linalg.norm(o)) for o in offsets) < reach:
            kept.append(sample)
    return kept


def mean_of(samples: list[Sample]) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted mean (2,) of samples and its covariance (2, 2).

    Most of a measurement's covariance is systematic (shading, lens, pose): averaging does not take that away.
    """
    covariances = np.array([s.covariance for s in samples])
    weights = 1 / (covariances[:, 0, 0] + covariances[:, 1, 1])
    weights /= weights.sum()
    positions = np.array([s.position for s in samples])
    far = np.sqrt(np.sum((positions - np.median(positions, axis=0)) ** 2, axis=1))
    weights = np.where(far <= max(3 * float(np.median(far)), 3e-4), weights, 0.0)
    weights /= weights.sum()
    typical = np.einsum("n,nij->ij", weights, covariances)
    return weights @ positions, typical * (0.9 + 0.1 * float(np.sum(weights**2)))
