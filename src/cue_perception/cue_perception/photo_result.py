"""What ``cue track IMAGE`` tells of one picture: balls in pixels and metres, the table's outline, its size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from cue_core.table import TableModel
from cue_perception.camera import Camera, Intrinsics
from cue_perception.colours import BallClass, classify
from cue_perception.photo import Reading, read_photo
from cue_perception.reconstruct import facing
from cue_perception.scale import Scale, find_scale, marker_estimates, mirrored, resized

_APART = 0.04  # relative: sizes from two sources that differ by more are worth a warning
_OTHER_SHAPE = 0.03  # relative, of the aspect


@dataclass(frozen=True)
class PhotoBall:
    """One ball of a picture.

    Attributes:
        pixel: (2,) middle of its outline [px].
        pixel_covariance: (2, 2) [px^2].
        radius: mean radius of its outline [px].
        position: (2,) on the table [m].
        covariance: (2, 2) [m^2]; of the measurement, without the scale's error.
        kind: class by colour and stripe.
        colour: (3,) sRGB 0..1 of its paint.
        confidence: that it is a ball, 0..1, by how much of its outline is seen and how well it fits.
    """

    pixel: np.ndarray
    pixel_covariance: np.ndarray
    radius: float
    position: np.ndarray
    covariance: np.ndarray
    kind: BallClass
    colour: np.ndarray
    confidence: float


@dataclass(frozen=True)
class PhotoResult:
    """Everything that one picture tells.

    Attributes:
        reading: the measurement.
        camera: pose [m] and lens, for pixels of the picture.
        table: in metres; what the picture does not tell is in the usual proportion to the balls.
        balls: in order of their pixels, left to right.
        scale: of the table.
        mirrored: whether the picture is mirrored; None = nothing in it tells.
        warnings: what a person should know.
    """

    reading: Reading
    camera: Camera
    table: TableModel
    balls: tuple[PhotoBall, ...]
    scale: Scale
    mirrored: bool | None
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        view, lens = self.reading.view, self.camera.intrinsics
        sigma = np.sqrt(np.diag(view.covariance))
        return {
            "width": lens.width,
            "height": lens.height,
            "table": {
                "outline_px": self.reading.corners.tolist(),
                "length_m": self.table.length,
                "width_m": self.table.width,
                "aspect": self.table.length / self.table.width,
                "aspect_sigma": float(sigma[8] * self.table.length / self.table.width),
                "cloth_lab": self.reading.cloth.tolist(),
                "edge_rms_px": view.rms,
                "cushions_seen": self.reading.signs.cushions,
                "side_pockets_seen": self.reading.signs.pockets,
                "edge_points": view.edges,
                "model": self.table.to_dict(),
            },
            "camera": {
                "matrix": lens.matrix.tolist(),
                "distortion": lens.distortion.tolist(),
                "focal_sigma": float(sigma[6]),
                "rotation": self.camera.rotation.tolist(),
                "translation_m": self.camera.translation.tolist(),
                "position_m": self.camera.position.tolist(),
            },
            "scale": {
                "length_m": self.scale.length,
                "source": self.scale.source,
                "known": self.scale.known,
                "disagreement": self.scale.disagreement,
                "ball_radius_over_length": _number(self.reading.ball_ratio),
                "ball_radius_over_length_sigma": _number(self.reading.ball_ratio_sigma),
                "estimates": [
                    {"source": e.source, "length_m": e.length, "sigma_m": e.sigma, "assumed": e.assumed}
                    for e in self.scale.estimates
                ],
            },
            "balls": [
                {
                    "px": ball.pixel.tolist(),
                    "covariance_px2": ball.pixel_covariance.tolist(),
                    "radius_px": ball.radius,
                    "m": ball.position.tolist(),
                    "covariance_m2": ball.covariance.tolist(),
                    "class": ball.kind.name,
                    "set": ball.kind.set_name,
                    "number": ball.kind.number,
                    "class_confidence": ball.kind.confidence,
                    "colour_srgb": ball.colour.tolist(),
                    "confidence": ball.confidence,
                }
                for ball in self.balls
            ],
            "mirrored": self.mirrored,
            "warnings": list(self.warnings),
        }


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def examine(
    image: np.ndarray,
    table: TableModel | None = None,
    lens: Intrinsics | None = None,
    presets: Sequence[TableModel] = (),
    ball_diameter: float | None = None,
    marker_side: float | None = None,
    marker_family: str = "",
    half_turn: bool = False,
) -> PhotoResult:
    """Find the table and the balls in a picture, and tell how large they are.

    Args:
        image: (h, w, 3) BGR uint8.
        table: of known size; None = its shape is estimated, its size guessed.
        lens: calibration; None = it is estimated.
        presets: tables on sale, to guess from.
        ball_diameter: known [m].
        marker_side: of square markers lying level on the frame [m].
        marker_family: of these markers; empty = whichever is seen.
        half_turn: take the other of the two table frames.

    Raises:
        TableNotFoundError: the picture shows no table.
        UnknownNameError: no such family of markers.
    """
    reading = read_photo(image, table, lens)
    balls = reading.balls
    kinds = classify(np.array([b.colour for b in balls]).reshape(-1, 3), np.array([b.white_share for b in balls]))
    snooker = bool(kinds) and kinds[0].set_name == "snooker"
    markers = marker_estimates(image, reading.camera, reading.table, marker_side, marker_family) if marker_side else []
    scale = find_scale(reading.ball_ratio, reading.ball_ratio_sigma, table, presets, ball_diameter, snooker, markers)
    shape, camera, factor = resized(reading.table, reading.camera, scale.length)
    turn = -1.0 if (facing(camera) < 0) != half_turn else 1.0
    if turn < 0:
        camera = camera.half_turned()
    found = []
    for k in np.argsort(reading.pixels[:, 0]) if len(balls) else []:
        ball = balls[k]
        found.append(
            PhotoBall(
                reading.pixels[k],
                reading.pixel_covariance[k],
                float(np.linalg.norm(reading.outlines[k] - reading.pixels[k], axis=1).mean()),
                turn * factor * ball.position,
                factor**2 * ball.covariance,
                kinds[k],
                _srgb(ball.colour),
                float(np.clip(ball.support * (1.05 - 0.45 * ball.scatter / 0.55), 0.05, 1.0)) if ball.sharp else 0.3,
            )
        )
    flipped = mirrored(image, marker_family)
    return PhotoResult(
        reading,
        camera,
        shape,
        tuple(found),
        scale,
        flipped,
        _warnings(reading, table, scale, flipped, bool(marker_side)),
    )


def _srgb(lab: np.ndarray) -> np.ndarray:
    rgb = cv2.cvtColor(np.asarray(lab, np.float32).reshape(1, 1, 3), cv2.COLOR_LAB2RGB)
    return np.asarray(np.clip(rgb.reshape(3), 0, 1), float)


def _warnings(
    reading: Reading, table: TableModel | None, scale: Scale, flipped: bool | None, wanted_markers: bool
) -> tuple[str, ...]:
    said = []
    if reading.signs.doubt:
        said.append(reading.signs.doubt)
    if not scale.known:
        said.append(
            f"no size is known: all metres follow from a guess ({scale.source}: {scale.estimates[0].assumed})"
            if scale.estimates
            else "no size is known and no ball is seen: all metres are nominal"
        )
    if scale.disagreement > _APART:
        told = ", ".join(f"{e.length:.3f} m by {e.source} ({e.assumed})" for e in scale.estimates)
        said.append(f"sources of the table's length disagree by {scale.disagreement:.1%}: {told}")
    aspect = reading.table.length / reading.table.width
    if table is not None and abs(aspect / (table.length / table.width) - 1) > _OTHER_SHAPE:
        said.append(
            f"the table seen is {aspect:.2f} times as long as wide, preset {table.name} is"
            f" {table.length / table.width:.2f}: another table"
        )
    if wanted_markers and not any(e.source == "markers" for e in scale.estimates):
        said.append("no level marker was found")
    if flipped:
        said.append("the picture is mirrored: its markers read only in a mirror")
    if any(not b.sharp for b in reading.balls):
        said.append("some balls are blurred: their centres are those of patches")
    return tuple(said)
