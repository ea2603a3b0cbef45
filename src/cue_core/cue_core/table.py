"""The table: geometry in the table frame (origin at the bed's centre, x along the long axis, z = 0 on the cloth)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cue_core.checks import finite_in, load_yaml, only_keys
from cue_core.errors import FileFormatError, UnknownNameError

MARKINGS = ("pool", "snooker", "carom")
"""Games whose spots a cloth may carry."""


@dataclass(frozen=True)
class Pocket:
    """A pocket: a ball whose centre comes within ``radius`` [m] of ``position`` (2,) [m] falls, unless a jaw saves it.

    How a fast ball gets out again: ``cue_sim/native/pocket.c``.
    """

    name: str
    position: np.ndarray
    radius: float


@dataclass(frozen=True)
class Cushion:
    """One straight cushion nose between two jaws.

    Attributes:
        name: e.g. ``"north_west"``.
        start: (2,) one end of the nose line [m].
        end: (2,) other end [m]; the playing area lies to the left going from start to end.
    """

    name: str
    start: np.ndarray
    end: np.ndarray

    @property
    def normal(self) -> np.ndarray:
        """Return the (2,) unit vector from the cushion into the playing area."""
        along = (self.end - self.start) / np.linalg.norm(self.end - self.start)
        return np.array([-along[1], along[0]])


@dataclass(frozen=True)
class TableModel:
    """A pocket billiard table with six pockets, or a carom table with none: both mouths zero, four full cushions.

    Attributes:
        name: of the preset.
        length: between the noses of the short cushions, along x [m].
        width: between the noses of the long cushions, along y [m].
        ball_radius: [m].
        ball_mass: [kg].
        nose_height: of the cushion nose above the cloth [m].
        corner_mouth: between the jaw tips of a corner pocket [m]; 0 = no pockets.
        side_mouth: between the jaw tips of a side pocket [m]; 0 = no pockets.
        corner_shelf: from the mouth line of a corner pocket to the drop's edge [m].
        side_shelf: the same for a side pocket [m].
        rail_width: from the nose to the outer edge of the frame [m].
        cloth_colour: sRGB 0..1 (nominal; the tracker finds the real one).
        markings: whose spots are on the cloth, one of :data:`MARKINGS`.
    """

    name: str
    length: float
    width: float
    ball_radius: float
    ball_mass: float
    nose_height: float
    corner_mouth: float
    side_mouth: float
    corner_shelf: float
    side_shelf: float
    rail_width: float
    cloth_colour: tuple[float, float, float] = (0.10, 0.35, 0.62)
    markings: str = "pool"

    def __post_init__(self) -> None:
        """Check every length.

        Raises:
            OutOfRangeError: naming the field and its range.
            FileFormatError: one kind of pocket without the other.
            UnknownNameError: nobody marks a table so.
        """
        if self.markings not in MARKINGS:
            raise UnknownNameError("markings", self.markings, MARKINGS)
        finite_in("length", self.length, 0.3, 4.0, "m")
        finite_in("width", self.width, 0.15, self.length, "m")
        finite_in("ball_radius", self.ball_radius, 0.01, 0.05, "m")
        finite_in("ball_mass", self.ball_mass, 0.01, 0.5, "kg")
        finite_in("nose_height", self.nose_height, self.ball_radius, 1.8 * self.ball_radius, "m")
        mouths = {"corner_mouth": self.corner_mouth, "side_mouth": self.side_mouth}
        if all(mouth == 0 for mouth in mouths.values()):
            mouths = {}
        elif any(mouth == 0 for mouth in mouths.values()):
            raise FileFormatError(
                "table",
                f"corner_mouth is {self.corner_mouth}, side_mouth {self.side_mouth} m; "
                "a table without pockets has 0 for both",
            )
        for name, mouth in mouths.items():
            finite_in(name, mouth, 2 * self.ball_radius, 0.5 * self.width, "m")
        finite_in("corner_shelf", self.corner_shelf, -self.ball_radius, 0.15, "m")
        finite_in("side_shelf", self.side_shelf, -self.ball_radius, 0.15, "m")
        finite_in("rail_width", self.rail_width, 0.01, 0.5, "m")

    @property
    def pocketless(self) -> bool:
        """Tell whether the table has no pockets, so that its four cushions run from corner to corner."""
        return self.corner_mouth == 0

    @property
    def ball_stop(self) -> float:
        """Return the horizontal distance [m] from ball centre to nose line at contact: sqrt(R^2 - (h - R)^2)."""
        return math.sqrt(self.ball_radius**2 - (self.nose_height - self.ball_radius) ** 2)

    @property
    def drop_radius(self) -> float:
        """Return the radius [m] of a pocket's drop: half a corner mouth, the hole that a full mouth leads to."""
        return 0.5 * self.corner_mouth

    @property
    def pockets(self) -> tuple[Pocket, ...]:
        """Return the pockets, drop edge ``shelf`` behind the mouth line; in their names y is north, x is east."""
        if self.pocketless:
            return ()
        x, y = self.length / 2, self.width / 2
        jaw = self.corner_mouth / math.sqrt(2)  # each nose line ends this far from the corner point
        to_centre = jaw / math.sqrt(2) - self.corner_shelf - self.drop_radius
        centre = np.array([x, y]) - to_centre / math.sqrt(2)
        side_y = y + self.side_shelf + self.drop_radius
        places = {
            "corner_ne": (centre[0], centre[1]),
            "side_n": (0.0, side_y),
            "corner_nw": (-centre[0], centre[1]),
            "corner_sw": (-centre[0], -centre[1]),
            "side_s": (0.0, -side_y),
            "corner_se": (centre[0], -centre[1]),
        }
        return tuple(Pocket(name, np.array(p), self.drop_radius) for name, p in places.items())

    @property
    def cushions(self) -> tuple[Cushion, ...]:
        """Return the six nose lines (four without pockets), anticlockwise, each with the playing area on its left."""
        x, y = self.length / 2, self.width / 2
        jaw, half = self.corner_mouth / math.sqrt(2), self.side_mouth / 2
        lines: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
            "south": ((-x, -y), (x, -y)),
            "east": ((x, -y), (x, y)),
            "north": ((x, y), (-x, y)),
            "west": ((-x, y), (-x, -y)),
        }
        if self.pocketless:
            return tuple(Cushion(name, np.array(a), np.array(b)) for name, (a, b) in lines.items())
        lines = {
            "south_west": ((-x + jaw, -y), (-half, -y)),
            "south_east": ((half, -y), (x - jaw, -y)),
            "east": ((x, -y + jaw), (x, y - jaw)),
            "north_east": ((x - jaw, y), (half, y)),
            "north_west": ((-half, y), (-x + jaw, y)),
            "west": ((-x, y - jaw), (-x, -y + jaw)),
        }
        return tuple(Cushion(name, np.array(a), np.array(b)) for name, (a, b) in lines.items())

    @property
    def spots(self) -> dict[str, np.ndarray]:
        """Return the spots on the cloth, name -> (2,) [m]; the head (baulk) end is at -x, play opens towards +x.

        Pool: WPA, Rules of Play 8.1. Carom: UMB, World Rules of Carom Billiards, article 13; the outer two lie 182.5 mm
        beside the head spot. Snooker: WPBSA, Official Rules, section 1.1; on other sizes than the full 3569 mm the
        measures shrink with the length.
        """
        if self.markings == "snooker":
            scale = self.length / 3.569
            baulk, half_d = 0.737 * scale - self.length / 2, 0.292 * scale
            places = {
                "brown": (baulk, 0.0),
                "yellow": (baulk, -half_d),  # to the right, seen from the baulk end
                "green": (baulk, half_d),
                "blue": (0.0, 0.0),
                "pink": (self.length / 4, 0.0),
                "black": (self.length / 2 - 0.324 * scale, 0.0),
            }
        else:
            places = {"foot": (self.length / 4, 0.0), "centre": (0.0, 0.0), "head": (-self.length / 4, 0.0)}
            if self.markings == "carom":
                beside = 0.1825 * self.length / 2.84
                places |= {"head_right": (-self.length / 4, -beside), "head_left": (-self.length / 4, beside)}
        return {name: np.array(place) for name, place in places.items()}

    def inside(self, position: np.ndarray, margin: float = 0.0) -> bool:
        """Tell whether a ball centre (2,) [m] clears every nose line by ``ball_stop + margin``."""
        reach = self.ball_stop + margin
        return bool(abs(position[0]) <= self.length / 2 - reach and abs(position[1]) <= self.width / 2 - reach)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: object = "table") -> TableModel:
        """Build from plain data; lengths in m, mass in kg.

        Raises:
            FileFormatError: a key is missing or unknown.
            OutOfRangeError: a value is out of range.
        """
        fields = set(cls.__dataclass_fields__)
        only_keys(where, data, fields, needed=sorted(fields - {"cloth_colour", "markings"}))
        values = dict(data)
        if "cloth_colour" in values:
            values["cloth_colour"] = tuple(finite_in("cloth_colour", c, 0, 1) for c in values["cloth_colour"])
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that :meth:`from_dict` takes back."""
        data = {name: getattr(self, name) for name in self.__dataclass_fields__}
        data["cloth_colour"] = list(self.cloth_colour)
        return data

    @classmethod
    def load(cls, path: Path | str) -> TableModel:
        """Read a preset (``config/tables/*.yaml``).

        Raises:
            FileFormatError: the file is missing or malformed.
            OutOfRangeError: a value is out of range.
        """
        return cls.from_dict(load_yaml(path), path)
