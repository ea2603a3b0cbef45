"""A correction learned from shots, beside the laws: what it is made of, and how it is kept.

Sums of Gaussian bumps around places where shots were seen (``native/correction.c``): a factor on rolling friction by
position, direction and speed, and factors on the impulses at cushions and between balls by approach and slip. Away from
its places every bump fades to nothing, and the laws stand alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cue_core.errors import FileFormatError
from cue_sim.structures import DOUBLE, BasisStruct, Learned, pointer

ROLLING = ("x", "y", "cosine", "sine", "speed")
"""Dimensions of the rolling bumps: position [m], direction of travel, speed [m/s]."""
IMPACT = ("approach", "slip")
"""Dimensions of the impacts' bumps [m/s]."""


@dataclass(frozen=True)
class Basis:
    """M bumps in D dimensions.

    Attributes:
        centres: (M, D).
        widths: (D,) standard deviation of every bump along each dimension.
    """

    centres: np.ndarray
    widths: np.ndarray

    @classmethod
    def none(cls, dimensions: tuple[str, ...]) -> Basis:
        """Return no bumps."""
        return cls(np.zeros((0, len(dimensions))), np.ones(len(dimensions)))

    def __len__(self) -> int:
        """Return M."""
        return len(self.centres)

    def __call__(self, places: np.ndarray) -> np.ndarray:
        """Return (B, M) the bumps at (B, D) places."""
        off = (np.asarray(places, float)[:, None] - self.centres) / self.widths
        return np.exp(-0.5 * np.sum(off**2, axis=2))


@dataclass(frozen=True)
class Correction:
    """Bumps and their weights.

    Attributes:
        rolling: dimensions :data:`ROLLING`; the sum is the logarithm of a factor on rolling friction, at most 1.
        cushion: dimensions :data:`IMPACT`; sums are relative changes of impulses, at most 0.3.
        ball: likewise.
        weights: (W,) of rolling, of cushions along the normal and along the nose, of balls along the normal and across.
    """

    rolling: Basis = field(default_factory=lambda: Basis.none(ROLLING))
    cushion: Basis = field(default_factory=lambda: Basis.none(IMPACT))
    ball: Basis = field(default_factory=lambda: Basis.none(IMPACT))
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        """Refuse bumps and weights that do not fit together.

        Raises:
            FileFormatError: naming what does not fit.
        """
        for name, basis, dimensions in (
            ("rolling", self.rolling, ROLLING),
            ("cushion", self.cushion, IMPACT),
            ("ball", self.ball, IMPACT),
        ):
            shapes = np.shape(basis.centres), np.shape(basis.widths)
            if shapes != ((len(basis.centres), len(dimensions)), (len(dimensions),)):
                raise FileFormatError(f"{name} bumps", f"need dimensions {', '.join(dimensions)}, got shapes {shapes}")
            if not np.isfinite(basis.centres).all() or not np.all(np.asarray(basis.widths) > 0):
                raise FileFormatError(f"{name} bumps", "need finite centres and widths above 0")
        if np.shape(self.weights) != (self.size,) or not np.isfinite(self.weights).all():
            raise FileFormatError("correction", f"needs {self.size} finite weights, got {np.shape(self.weights)}")

    @property
    def size(self) -> int:
        """Return W."""
        return len(self.rolling) + 2 * len(self.cushion) + 2 * len(self.ball)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for files and messages."""
        bases = {"rolling": self.rolling, "cushion": self.cushion, "ball": self.ball}
        told = {
            k: {"centres": np.asarray(b.centres).tolist(), "widths": np.asarray(b.widths).tolist()}
            for k, b in bases.items()
        }
        return {**told, "weights": np.asarray(self.weights).tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Correction:
        """Read back what :meth:`to_dict` wrote.

        Raises:
            FileFormatError: it is something else.
        """
        try:
            bases = {
                name: Basis(
                    np.array(data[name]["centres"], float).reshape(-1, len(dimensions)),
                    np.array(data[name]["widths"], float),
                )
                for name, dimensions in (("rolling", ROLLING), ("cushion", IMPACT), ("ball", IMPACT))
            }
            return cls(**bases, weights=np.array(data["weights"], float))
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError("correction", f"malformed: {type(error).__name__} {error}") from None


class Features:
    """The bumps as the kernel reads them; keep it as long as it is used.

    Attributes:
        struct: ``cue_learned``.
    """

    def __init__(self, correction: Correction) -> None:
        """Lay the bumps out."""
        self._keep = []
        bases = []
        for basis in (correction.rolling, correction.cushion, correction.ball):
            centres = np.ascontiguousarray(basis.centres, float)
            inverse = np.ascontiguousarray(1.0 / np.asarray(basis.widths, float))
            self._keep += [centres, inverse]
            bases.append(BasisStruct(*centres.shape, pointer(centres, DOUBLE), pointer(inverse, DOUBLE)))
        self.struct = Learned(*bases)
