"""What this arm makes of a commanded stroke, learnt stroke by stroke, and what to command instead.

Speed is off by a gain and an offset, azimuth and the two tip offsets by a bias each. All five are estimated by one
Kalman filter per quantity that starts from "the arm does as told" with a stated doubt and forgets slowly.
"""

from __future__ import annotations

import json
import math
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cue_core.checks import finite_in
from cue_core.errors import FileFormatError
from cue_core.files import write_atomically
from cue_core.shots import MISCUE_OFFSET, Shot, Stroke

STROKE_MODEL_FILE = "stroke_model.json"

_FORMAT, _VERSION = "cue-stroke-model", 1
_STRANGE = 6.0  # standard deviations from what was expected: an accident, not this arm's habit
_LARGEST_CHANGE = 0.5  # share of the asked speed


@dataclass(frozen=True)
class _Quantity:
    """How one quantity is learnt.

    Attributes:
        doubt: standard deviations of its coefficients before the first stroke.
        noise: standard deviation of one stroke about what the coefficients say.
        drift: standard deviation by which the coefficients wander per stroke.
    """

    doubt: tuple[float, ...]
    noise: float
    drift: tuple[float, ...]


# Speed error [m/s] = gain * speed + offset; azimuth error [rad]; tip offset errors [m].
_QUANTITIES = {
    "speed": _Quantity((0.15, 0.01), 0.005, (0.001, 0.0001)),
    "azimuth": _Quantity((0.03,), 0.003, (0.0002,)),
    "side": _Quantity((0.002,), 0.0003, (0.00002,)),
    "vertical": _Quantity((0.002,), 0.0003, (0.00002,)),
}


@dataclass
class _Belief:
    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def before(cls, quantity: _Quantity) -> _Belief:
        return cls(np.zeros(len(quantity.doubt)), np.diag(np.square(quantity.doubt)))

    def learn(self, features: np.ndarray, error: float, noise: float, drift: tuple[float, ...]) -> bool:
        """Take one observed error; False = too strange to be learnt from."""
        covariance = self.covariance + np.diag(np.square(drift))
        spread = float(features @ covariance @ features) + noise**2
        surprise = error - float(features @ self.mean)
        if not surprise**2 <= _STRANGE**2 * spread:
            return False
        gain = covariance @ features / spread
        self.mean = self.mean + gain * surprise
        self.covariance = covariance - np.outer(gain, features @ covariance)
        return True


class StrokeModel:
    """Achieved from commanded. Thread-safe.

    Attributes:
        count: strokes learnt from.
    """

    def __init__(self, ball_radius: float, path: Path | str = "") -> None:
        """Begin with an arm that does as told, or go on from a file.

        Args:
            ball_radius: in which tip offsets are counted [m].
            path: of the file that keeps the model; empty = none.

        Raises:
            FileFormatError: the file is damaged.
        """
        self._radius = finite_in("ball_radius", ball_radius, 0.005, 0.1, "m")
        self._path = Path(path) if str(path) else None
        self._lock = threading.Lock()
        self.count = 0
        self._beliefs = {name: _Belief.before(quantity) for name, quantity in _QUANTITIES.items()}
        if self._path is not None and self._path.exists():
            self._read(self._path)

    def observe(self, sent: Shot, achieved: Stroke) -> bool:
        """Learn from a stroke that went to its end at full pace; False = it was too strange to be learnt from.

        Args:
            sent: as it was planned, compensation included.
            achieved: as measured.

        Raises:
            FileFormatError: the file cannot be written.
        """
        turn = math.remainder(achieved.azimuth - sent.azimuth, 2 * math.pi)
        one = np.ones(1)
        errors = {
            "speed": (np.array([sent.speed, 1.0]), achieved.tip_speed - sent.speed),
            "azimuth": (one, turn),
            "side": (one, self._radius * (achieved.side_offset - sent.side_offset)),
            "vertical": (one, self._radius * (achieved.vertical_offset - sent.vertical_offset)),
        }
        if not all(math.isfinite(error) for _, error in errors.values()):
            return False
        measured = {"speed": achieved.tip_speed_stddev, "azimuth": achieved.azimuth_stddev}
        with self._lock:
            learnt = True
            for name, (features, error) in errors.items():
                quantity = _QUANTITIES[name]
                noise = math.hypot(quantity.noise, measured.get(name, 0.0))
                learnt &= self._beliefs[name].learn(features, error, noise, quantity.drift)
            self.count += 1
            if self._path is not None:
                write_atomically(self._path, json.dumps(self._to_dict()))
        return learnt

    def expect(self, sent: Shot) -> Shot:
        """Return the stroke that the arm is expected to make of a shot, as a shot."""
        with self._lock:
            gain, offset = self._beliefs["speed"].mean
            turn, side, up = (float(self._beliefs[name].mean[0]) for name in ("azimuth", "side", "vertical"))
        return replace(
            sent,
            speed=_speed(sent.speed, (1 + gain) * sent.speed + offset),
            azimuth=sent.azimuth + turn,
            side_offset=_offset(sent.side_offset + side / self._radius),
            vertical_offset=_offset(sent.vertical_offset + up / self._radius),
        )

    def compensate(self, shot: Shot) -> Shot:
        """Return what to command so that the arm achieves ``shot``."""
        with self._lock:
            gain, offset = self._beliefs["speed"].mean
            turn, side, up = (float(self._beliefs[name].mean[0]) for name in ("azimuth", "side", "vertical"))
        return replace(
            shot,
            speed=_speed(shot.speed, (shot.speed - offset) / max(1 + gain, 0.1)),
            azimuth=shot.azimuth - turn,
            side_offset=_offset(shot.side_offset - side / self._radius),
            vertical_offset=_offset(shot.vertical_offset - up / self._radius),
        )

    def describe(self) -> dict[str, tuple[float, float]]:
        """Return value and standard deviation of each coefficient, by name with its unit."""
        names = {
            "speed": ("speed_gain", "speed_offset_m_s"),
            "azimuth": ("azimuth_bias_rad",),
            "side": ("side_offset_m",),
            "vertical": ("vertical_offset_m",),
        }
        with self._lock:
            return {
                label: (float(belief.mean[i]) + (label == "speed_gain"), float(math.sqrt(belief.covariance[i, i])))
                for name, belief in self._beliefs.items()
                for i, label in enumerate(names[name])
            }

    def _to_dict(self) -> dict[str, object]:
        beliefs = {n: {"mean": b.mean.tolist(), "covariance": b.covariance.tolist()} for n, b in self._beliefs.items()}
        return {"format": _FORMAT, "version": _VERSION, "strokes": self.count, "beliefs": beliefs}

    def _read(self, path: Path) -> None:
        try:
            data = json.loads(path.read_bytes())
            if (data["format"], data["version"]) != (_FORMAT, _VERSION):
                raise ValueError(f"is {data['format']} version {data['version']}")
            for name, quantity in _QUANTITIES.items():
                mean = np.array(data["beliefs"][name]["mean"], float)
                covariance = np.array(data["beliefs"][name]["covariance"], float)
                size = len(quantity.doubt)
                if mean.shape != (size,) or covariance.shape != (size, size) or not np.isfinite(covariance).all():
                    raise ValueError(f"{name} has the wrong shape")
                self._beliefs[name] = _Belief(mean, covariance)
            self.count = int(data["strokes"])
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise FileFormatError(path, f"is no stroke model of this version: {error}") from None


def _speed(asked: float, wanted: float) -> float:
    """Return a speed [m/s] that is not far from the asked one, whatever the model believes."""
    low, high = (1 - _LARGEST_CHANGE) * asked, (1 + _LARGEST_CHANGE) * asked
    return float(np.clip(wanted, max(low, 0.01), high))


def _offset(wanted: float) -> float:
    return float(np.clip(wanted, -MISCUE_OFFSET, MISCUE_OFFSET))
