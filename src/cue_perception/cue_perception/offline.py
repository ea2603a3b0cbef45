"""The whole tracker over a video or a folder of images, without ROS: shots, balls per image, an annotated film."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from cue_core.balls import BallState
from cue_core.errors import CueError, FileFormatError
from cue_core.files import write_atomically
from cue_core.shot_log import ShotLog, record_to_dict
from cue_core.shots import ShotRecord
from cue_core.table import TableModel
from cue_perception.camera import Intrinsics
from cue_perception.errors import SourceError, TableNotFoundError
from cue_perception.overlay import draw_overlay
from cue_perception.pipeline import AVERAGING, Outcome, Pipeline, TrackerConfig
from cue_perception.sources import Source

SHOTS, BALLS, FILM, SUMMARY = "shots.jsonl", "balls.jsonl", "annotated.mp4", "summary.json"
FORMAT, VERSION = "cue-balls-log", 1
_SEARCH = 60  # images in which the table must be found
_TRAIL = 3.0  # s
_WIDEST = 1920  # px: larger images cost time and tell no more of where a ball is
_CODECS = ("avc1", "mp4v")


class EncoderError(CueError):
    """OpenCV here cannot write the film."""


@dataclass
class Result:
    """What came of a film.

    Attributes:
        images: read.
        calibrated_at: number of the image from which on the table was known.
        records: shots.
        last: the last word on each ball.
        rms: of the nose edges [px].
        film: whether the annotated film was written; else why not.
        counts: of stamps by verdict.
        problem: why the table was not found in the images so far.
    """

    images: int = 0
    calibrated_at: int = 0
    records: list[ShotRecord] = field(default_factory=list)
    last: tuple[BallState, ...] = ()
    rms: float = float("nan")
    film: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    problem: str = ""


class Film:
    """An annotated film, written beside its final name and moved there when it is whole."""

    def __init__(self, path: Path, fps: float) -> None:
        """Name it; it is begun by the first picture."""
        self.path, self._fps = path, fps if fps > 0 else 30.0
        self._draft = path.with_name(f"{path.stem}.part{path.suffix}")
        self._writer: cv2.VideoWriter | None = None

    def add(self, picture: np.ndarray) -> None:
        """Append a picture (h, w, 3).

        Raises:
            EncoderError: OpenCV has no encoder for it.
        """
        if self._writer is None:
            height, width = picture.shape[:2]
            cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
            for codec in _CODECS:
                fourcc = cv2.VideoWriter.fourcc(*codec)
                self._writer = cv2.VideoWriter(str(self._draft), fourcc, self._fps, (width & ~1, height & ~1))
                if self._writer.isOpened():
                    break
            else:
                self._writer = None
                self._draft.unlink(missing_ok=True)
                raise EncoderError(f"no annotated film: OpenCV {cv2.__version__} here has no encoder for {FILM}")
        self._writer.write(picture[: picture.shape[0] & ~1, : picture.shape[1] & ~1])

    def close(self, keep: bool) -> None:
        """End the film, and give it its name if it is to be kept."""
        if self._writer is None:
            return
        self._writer.release()
        if keep:
            os.replace(self._draft, self.path)
        else:
            self._draft.unlink(missing_ok=True)


def track_film(
    source: Source,
    table: TableModel,
    lens: Intrinsics | None,
    folder: Path,
    config: TrackerConfig | None = None,
    film: bool = True,
    progress: Callable[[int], None] = lambda image: None,
) -> Result:
    """Track a film and write ``shots.jsonl``, ``balls.jsonl``, ``annotated.mp4`` into a folder.

    Images wider than 1920 px are reduced to that. The files appear under their names only when the whole film has been
    tracked; a run that is cut leaves the earlier ones as they were.

    Args:
        source: opened film or folder.
        table: of known size.
        lens: None = estimate it from the table.
        folder: that exists.
        config: of the tracker.
        film: write the annotated film.
        progress: told the number of images done.

    Raises:
        TableNotFoundError: no table in the first images, with the reason.
        SourceError: the film has no images, or the calibration is for another size.
        FileFormatError: a file cannot be written.
    """
    drafts = {name: folder / f"{name}.part" for name in (SHOTS, BALLS)}
    result = Result()
    picture = Film(folder / FILM, source.fps) if film else None
    whole = False
    try:
        for path in drafts.values():
            path.unlink(missing_ok=True)
        log = ShotLog(drafts[SHOTS])
        pipeline = Pipeline(config or TrackerConfig(lockstep=False), table)
        with open(drafts[BALLS], "w", encoding="utf-8") as balls:
            balls.write(_line({"format": FORMAT, "version": VERSION, "table": table.name, "fps": source.fps}))
            for number, stamp, image in _images(source, lens):
                image, seen = reduced(image, lens)
                outcome = pipeline.process(image, round(stamp * 1e9), seen)
                _check_found(pipeline, outcome, result, number)
                result.images = number + 1
                _keep(outcome.record, log, result)
                balls.write(_line(_told(number, stamp, outcome)))
                if picture is not None:
                    picture = _draw(picture, pipeline, outcome, image, stamp, result)
                progress(number + 1)
        if pipeline.reconstruction is None:
            raise TableNotFoundError(f"no table was found in {result.images} images: {result.problem}")
        _end(pipeline, log, result)
        result.counts = {verdict.value: count for verdict, count in pipeline.guard.counts.items()}
        drafts[SHOTS].touch()
        for name, path in drafts.items():
            os.replace(path, folder / name)
        whole = True
        if picture is not None:
            result.film = FILM
    except OSError as error:
        raise FileFormatError(folder, f"cannot be written: {error.strerror}") from None
    finally:
        if picture is not None:
            picture.close(keep=whole)
        for path in drafts.values():
            path.unlink(missing_ok=True)
    write_atomically(folder / SUMMARY, json.dumps(summary(result, table), indent=1) + "\n")
    return result


def _images(source: Source, lens: Intrinsics | None) -> Iterator[tuple[int, float, np.ndarray]]:
    """Yield number, stamp [s] and pixels of every image.

    Raises:
        SourceError: there is none, or they are not all of one size, the calibration's.
    """
    number, first = 0, (0, 0)
    while (image := source.read()) is not None:
        size = image.shape[1], image.shape[0]
        if number == 0:
            first = size
            if lens is not None and size != (lens.width, lens.height):
                raise SourceError(
                    f"images are {size[0]} x {size[1]} px, the calibration is for {lens.width} x {lens.height}"
                )
        if size != first:
            raise SourceError(f"image {number} is {size[0]} x {size[1]} px, the first {first[0]} x {first[1]}")
        yield number, source.stamp, image
        number += 1
    if number == 0:
        raise SourceError("the film holds no image that could be read")


def _check_found(pipeline: Pipeline, outcome: Outcome, result: Result, number: int) -> None:
    found = pipeline.reconstruction
    if outcome.calibrated and found is not None:
        if not np.isfinite(result.rms):
            result.rms, result.calibrated_at = found.rms, number
        result.last = outcome.balls
        return
    if pipeline.problem != AVERAGING or not result.problem:
        result.problem = pipeline.problem
    if number + 1 >= _SEARCH and not np.isfinite(result.rms):
        raise TableNotFoundError(f"no table was found in the first {number + 1} images: {result.problem}")


def reduced(image: np.ndarray, lens: Intrinsics | None) -> tuple[np.ndarray, Intrinsics | None]:
    """Return an image (h, w, 3) no wider than 1920 px, and the lens that fits it."""
    height, width = image.shape[:2]
    if width <= _WIDEST:
        return image, lens
    scale = _WIDEST / width
    small = cv2.resize(image, (_WIDEST, round(height * scale)), interpolation=cv2.INTER_AREA)
    if lens is None:
        return small, None
    factor = np.array([scale, small.shape[0] / height])
    matrix = lens.matrix.copy()
    matrix[:2, :2] *= factor[:, None]
    matrix[:2, 2] = (matrix[:2, 2] + 0.5) * factor - 0.5  # pixel centres lie at whole numbers
    return small, Intrinsics(small.shape[1], small.shape[0], matrix, lens.distortion)


def _draw(
    film: Film, pipeline: Pipeline, outcome: Outcome, image: np.ndarray, stamp: float, result: Result
) -> Film | None:
    """Add one annotated picture; return None where no film can be written."""
    shot = f"shot {len(result.records)}" if pipeline.recorder.recording else ""
    words = [f"{stamp:7.2f} s", "still" if outcome.settled else "moving" if outcome.calibrated else "", shot]
    text = "  ".join(word for word in words if word)
    found = pipeline.reconstruction
    if found is None or not outcome.calibrated:
        shown = image.copy()
        cv2.putText(shown, pipeline.problem, (8, 18), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (255, 255, 255), 1, cv2.LINE_AA)
    else:
        now = outcome.stamp * 1e-9
        trails = {i: t.trail(now - _TRAIL) for i, t in pipeline.balls.tracks.items() if not t.still}
        shown = draw_overlay(image, found.camera, pipeline.table, outcome.balls, trails, text=text)
    try:
        film.add(shown)
    except EncoderError as error:
        result.film = str(error)
        return None
    return film


def _end(pipeline: Pipeline, log: ShotLog, result: Result) -> None:
    """Close a shot that the film's end cut: it is kept, and says so."""
    _keep(pipeline.recorder.abort("incomplete"), log, result)


def _keep(record: ShotRecord | None, log: ShotLog, result: Result) -> None:
    """Log a record, unless nothing moved in it: a film announces no strokes, so that only motion makes a shot."""
    if record is None:
        return
    before = {ball.ball_id: ball.in_play for ball in record.before}
    gone = any(before.get(ball.ball_id, True) != ball.in_play for ball in record.after)
    if record.commanded is None and not record.moved_ball_ids() and not gone:
        return
    record = replace(record, index=len(result.records))
    log.append(record)
    result.records.append(record)


def _told(number: int, stamp: float, outcome: Outcome) -> dict[str, Any]:
    """Return one line of ``balls.jsonl``."""
    return {
        "image": number,
        "time": round(stamp, 6),
        "verdict": outcome.verdict.value,
        "calibrated": outcome.calibrated,
        "settled": outcome.settled,
        "balls": [
            {
                "id": ball.ball_id,
                "position": [round(float(v), 6) for v in ball.position],
                "covariance": [float(f"{ball.covariance[i, j]:.4g}") for i, j in ((0, 0), (0, 1), (1, 1))],
                "velocity": [round(float(v), 5) for v in ball.velocity],
                "motion": ball.motion.name,
                "visibility": ball.visibility.name,
                "colour": ball.colour,
                "identity_confidence": round(float(ball.identity_confidence), 4),
            }
            for ball in outcome.balls
        ],
    }


def _line(data: dict[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":")) + "\n"


def summary(result: Result, table: TableModel) -> dict[str, Any]:
    """Return what matters of a result as plain data."""
    return {
        "table": table.name,
        "images": result.images,
        "calibrated_at_image": result.calibrated_at,
        "nose_rms_px": result.rms,
        "stamps": result.counts,
        "film": result.film,
        "balls": [
            {"id": b.ball_id, "colour": b.colour, "visibility": b.visibility.name, "position": b.position.tolist()}
            for b in result.last
        ],
        "shots": [record_to_dict(record) for record in result.records],
    }
