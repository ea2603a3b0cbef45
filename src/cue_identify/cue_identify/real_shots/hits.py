"""What a hit makes a ball spin, as far as the striker's last way and the struck ball's first one tell.

Friction acts between the balls against the slip of the striker's surface: sideways v (sin(cut) - side), downwards
v follow cos(cut), with the striker's spins in units of v/R (Alciatore, billiards.colostate.edu, TP A-14; the same
impact as the twin's law ``coulomb``). Its sideways share throws the struck ball off the line of centres and gives it
side spin, its downward share gives it backspin. The striker's spin is not seen. So all that a player may have given
are tried, and each counts as much as it agrees with two measurements of the throw: where the centres were at the
hit, and how much of the striker's speed the struck ball got.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cue_identify.real_shots.recording import MATCH_TABLE
from cue_identify.real_shots.tracks import GRAVITY, SLIDING, WINDOW, Track

_SIDE_STDDEV = 0.5
"""Side spin of a struck cue ball [v/R]: the tip's offset times 5/2, with offsets of 0.2 radii usual in the game."""
_FOLLOW, _FOLLOW_STDDEV = 0.8, 0.35
"""Its forward spin [v/R]: 1 = it rolls, as it does after some way whatever the tip did; 0 = stun."""
_SIDES = np.linspace(-2.5, 2.5, 41)  # standard deviations
_FOLLOWS = np.linspace(-1.8, 1.8, 5)
_CUTS = np.arcsin(np.linspace(-0.95, 0.95, 13))  # of hits not seen: all offsets between the paths are as likely
_SPEED_RATIO = (0.010, 0.002)  # relative and absolute doubt of the ratio of both speeds
_OUTLIERS = 4.0  # degrees of freedom of the measurements' errors, for a blurred or merged ball now and then
_LEAST_STDDEV = 1e-3  # of a share of the friction
_REMEMBERED = 8  # answers
_HALF_WINDOW = WINDOW / 2 - 0.02  # [s] after the hit: where the fitted first way has its speed, whatever the friction


class Hits:
    """The hits of tracks, ready to be asked again and again."""

    def __init__(self, tracks: Sequence[Track]) -> None:
        """Take what was measured.

        Args:
            tracks: of struck balls.
        """
        side, follow = np.meshgrid(_SIDES, _FOLLOWS, indexing="ij")
        self._prior = np.exp(-0.5 * (side**2 + follow**2)).ravel()
        self._side = (_SIDE_STDDEV * side).ravel()
        self._follow = (_FOLLOW + _FOLLOW_STDDEV * follow).ravel()
        self._seen = np.flatnonzero([track.striker is not None for track in tracks])
        self._unseen = np.flatnonzero([track.striker is None for track in tracks])
        self._hit_speed = np.array([track.hit_speed for track in tracks])
        self._known: dict[tuple[float, float, float], tuple[np.ndarray, np.ndarray]] = {}
        strikers = [track.striker for track in tracks if track.striker is not None]
        self._cut, self._speed, self._throw, self._throw_stddev = (
            np.array([getattr(s, name) for s in strikers])[:, None]
            for name in ("cut", "speed", "throw", "throw_stddev")
        )

    def spins(self, friction: float, restitution: float, sliding: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the backspin and side spin that the hits give [rad/s].

        Args:
            friction: between the balls.
            restitution: between the balls.
            sliding: friction of the cloth: the speed at the hit was told with a usual one.

        Returns:
            (n, 2) expected backspin and side spin; (n, 2, 2) lower factors: times two standard normal numbers they
            give what may be added.
        """
        asked = (friction, restitution, sliding)
        if asked not in self._known:  # most steps of a fit move other terms
            while len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[asked] = self._spins(*asked)
        return self._known[asked]

    def _spins(self, friction: float, restitution: float, sliding: float) -> tuple[np.ndarray, np.ndarray]:
        count = len(self._hit_speed)
        mean, factor = np.zeros((count, 2)), np.zeros((count, 2, 2))
        speed = self._hit_speed + (sliding - SLIDING) * GRAVITY * _HALF_WINDOW
        if len(self._seen):
            down, aside = self._friction(self._cut, self._speed, friction, restitution)
            got = 0.5 * (1 + restitution) * (np.cos(self._cut) - np.sin(self._cut) * aside)
            doubt = _SPEED_RATIO[0] * np.maximum(got, 0.2) + _SPEED_RATIO[1]
            log = _likelihood((got - speed[self._seen, None] / self._speed) / doubt)
            log += _likelihood((np.arctan(aside) - self._throw) / self._throw_stddev)
            weight = self._prior * np.exp(log - log.max(axis=1, keepdims=True))
            mean[self._seen], factor[self._seen] = _moments(down, aside, weight)
        if len(self._unseen):
            struck = speed[self._unseen, None]
            shares = [
                self._friction(cut, struck / (0.5 * (1 + restitution) * np.cos(cut)), friction, restitution)
                for cut in np.broadcast_to(_CUTS[:, None, None], (len(_CUTS), len(struck), 1))
            ]
            down, aside = (np.concatenate(part, axis=1) for part in zip(*shares, strict=True))
            weight = np.concatenate([self._prior * np.cos(cut) for cut in _CUTS])
            mean[self._unseen], factor[self._unseen] = _moments(down, aside, np.broadcast_to(weight, down.shape))
        unit = 2.5 * np.maximum(speed, 0.0) / MATCH_TABLE.ball_radius
        sign = np.array([1.0, -1.0])  # a ball pushed to its left at its back turns to the right
        return unit[:, None] * mean * sign, unit[:, None, None] * factor * sign[:, None]

    def _friction(
        self, cut: np.ndarray, speed: np.ndarray, friction: float, restitution: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the downward and the leftward share of the impulse along the line of centres, (n, spins) each."""
        aside, down = speed * (np.sin(cut) - self._side), speed * np.cos(cut) * self._follow
        slip = np.hypot(aside, down)
        normal = 0.5 * (1 + restitution) * speed * np.cos(cut)
        # at most what ends the slip: 1/7 of it sideways, 1/5 of it downwards, since the cloth holds the balls' height
        sticks = np.hypot(aside / 7, down / 5) <= friction * normal
        slides = friction / np.maximum(slip, 1e-12)
        return (
            np.where(sticks, down / 5 / normal, slides * down),
            np.where(sticks, aside / 7 / normal, slides * aside),
        )


def _likelihood(deviations: np.ndarray) -> np.ndarray:
    """Return the logarithm of Student's density."""
    return -0.5 * (_OUTLIERS + 1) * np.log1p(deviations**2 / _OUTLIERS)


def _moments(down: np.ndarray, aside: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean (n, 2) and lower factor (n, 2, 2) of the covariance of weighted shares (n, spins)."""
    weight = weight / weight.sum(axis=1, keepdims=True)
    shares = np.stack([down, aside], axis=-1)
    mean = np.einsum("ns,nsk->nk", weight, shares)
    off = shares - mean[:, None]
    covariance = np.einsum("ns,nsk,nsl->nkl", weight, off, off) + _LEAST_STDDEV**2 * np.eye(2)
    return mean, np.linalg.cholesky(covariance)
