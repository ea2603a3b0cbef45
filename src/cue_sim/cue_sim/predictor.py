"""What the twin node knows and answers, without ROS: table, balls, every revision of the estimate, predictions."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cue_core.balls import BallState
from cue_core.errors import CueError, UnknownNameError
from cue_core.parameters import ParameterEstimate
from cue_core.settings import check_settings, setting
from cue_core.shot_log import read_lines
from cue_core.shots import Shot
from cue_core.table import TableModel
from cue_sim.correction import Correction
from cue_sim.export import save_twin
from cue_sim.kernel import IMPACT_STEP, LARGEST_STEP, LONGEST_STEP
from cue_sim.outlook import Outlook, Unknowns, outlooks
from cue_sim.portable import save_portable
from cue_sim.predict import Prediction, TwinFaultError, predict_all
from cue_sim.twin import Twin

ESTIMATES = "estimates.jsonl"
_KEPT_TWINS = 8
_KNOWN = Unknowns()


class NotReadyError(CueError):
    """No table, or no balls, are known yet."""


@dataclass(frozen=True)
class TwinConfig:
    """Settings of the twin node.

    Attributes:
        run_dir: folder of the session; empty = keep nothing.
        seed: of the posterior draws.
        largest_step: of the simulation [s].
        impact_step: of the simulation [s].
        ghosts: draws for the markers of a shot in progress.
        threads: of the simulations; the answers do not depend on it.
        azimuth_stddev: see :class:`cue_sim.outlook.Unknowns`, also for those below.
        speed_stddev: see there.
        played_azimuth_stddev: see there.
        played_speed_stddev: see there.
        place_stddev: see there.
        track_stddev: see there.
        track_bias: see there.
        frame_rate: see there.
        images_alike: see there.
        strange_terms: see there.
    """

    run_dir: str = setting("", "folder of the session; empty = keep nothing")
    seed: int = setting(0, "of the posterior draws", "1", 0, 2**31 - 1)
    largest_step: float = setting(LARGEST_STEP, "largest step between impacts", "s", 1e-4, LONGEST_STEP)
    impact_step: float = setting(IMPACT_STEP, "step in which an impact happens", "s", 1e-7, 1e-4)
    ghosts: int = setting(16, "posterior draws for the markers of a shot in progress", "1", 2, 1000)

    threads: int = setting(0, "of the simulations; 0 = one per core", "1", 0, 256)
    azimuth_stddev: float = setting(_KNOWN.azimuth, "of a stroke's direction, unseen by the arm", "rad", 0.0, 0.2)
    speed_stddev: float = setting(_KNOWN.speed, "of a stroke's speed, relative, unseen by the arm", "1", 0.0, 0.5)
    played_azimuth_stddev: float = setting(
        _KNOWN.played_azimuth, "of a stroke's direction against the one asked for, seen by the arm", "rad", 0.0, 0.2
    )
    played_speed_stddev: float = setting(
        _KNOWN.played_speed, "of a stroke's speed, relative to the one asked for, seen by the arm", "1", 0.0, 0.5
    )
    place_stddev: float = setting(_KNOWN.place, "of a resting ball's position along an axis", "m", 0.0, 0.05)
    track_stddev: float = setting(_KNOWN.track, "of a ball's position in one image along an axis", "m", 1e-5, 0.05)
    track_bias: float = setting(_KNOWN.bias, "the same, of what does not average over images", "m", 1e-6, 0.05)
    frame_rate: float = setting(_KNOWN.frame_rate, "of the camera", "1/s", 1.0, 1000.0)
    images_alike: float = setting(_KNOWN.alike, "images whose errors go together", "1", 1.0, 1000.0)
    strange_terms: float = setting(
        _KNOWN.strange, "of terms that are not fitted, in shares of their priors' standard deviations", "1", 0.0, 3.0
    )

    def __post_init__(self) -> None:
        """Check every setting.

        Raises:
            OutOfRangeError: naming the setting.
        """
        check_settings(self)

    @property
    def unknowns(self) -> Unknowns:
        """Return what is not known before a shot beside the parameters."""
        return Unknowns(
            self.azimuth_stddev,
            self.speed_stddev,
            self.played_azimuth_stddev,
            self.played_speed_stddev,
            self.place_stddev,
            self.track_stddev,
            self.track_bias,
            self.frame_rate,
            self.images_alike,
            self.strange_terms,
        )


@dataclass
class Predictor:
    """Answers predictions; its methods may be called from several threads.

    Attributes:
        config: settings.
        table: newest reconstruction, None = none yet.
        balls: newest observed balls.
        revisions: every estimate received, by revision; 0 = nominal.
    """

    config: TwinConfig
    table: TableModel | None = None
    balls: tuple[BallState, ...] = ()
    revisions: dict[int, ParameterEstimate] = field(default_factory=lambda: {0: ParameterEstimate.nominal()})
    _twins: dict[tuple[tuple[int, ...], int], Twin] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def restore(self) -> int:
        """Take back the promoted estimates of an earlier life from the run folder; return how many.

        Raises:
            FileFormatError: the file is malformed.
        """
        if not self.config.run_dir:
            return 0
        lines = read_lines(Path(self.config.run_dir) / ESTIMATES)
        restored = [ParameterEstimate.from_dict(line) for line in lines if line.get("promoted")]
        self.revisions.update({estimate.revision: estimate for estimate in restored})
        return len(restored)

    @property
    def latest(self) -> ParameterEstimate:
        """Return the estimate of the highest revision."""
        return self.revisions[max(self.revisions)]

    def set_table(self, table: TableModel) -> None:
        """Take a new reconstruction."""
        with self._lock:
            if self.table is None or self.table.to_dict() != table.to_dict():
                self.table = table
                self._twins.clear()

    def twin(self, ball_ids: Sequence[int], estimate: ParameterEstimate) -> Twin:
        """Return the twin with these balls, and with what the estimate learned beside its parameters.

        Raises:
            NotReadyError: no table yet.
            FileFormatError: the estimate's correction is none.
        """
        balls = tuple(sorted(ball_ids))
        key = (balls, estimate.revision if estimate.correction is not None else 0)
        with self._lock:
            if self.table is None:
                raise NotReadyError("no table_info yet")
            if key not in self._twins:
                if len(self._twins) >= _KEPT_TWINS:
                    self._twins.pop(next(iter(self._twins)))
                self._twins[key] = Twin(
                    self.table,
                    balls,
                    largest_step=self.config.largest_step,
                    impact_step=self.config.impact_step,
                    correction=None if estimate.correction is None else Correction.from_dict(estimate.correction),
                )
            return self._twins[key]

    def estimate(self, revision: int | None) -> ParameterEstimate:
        """Return an estimate; None = the latest.

        Raises:
            UnknownNameError: no such revision.
        """
        if revision is None:
            return self.latest
        if revision not in self.revisions:
            raise UnknownNameError("revision", revision, [str(r) for r in self.revisions])
        return self.revisions[revision]

    def predict(
        self,
        shots: Sequence[Shot],
        balls: Sequence[BallState] = (),
        revision: int | None = None,
        ensemble: int = 0,
        times: np.ndarray | Sequence[float] = (),
    ) -> tuple[Twin, ParameterEstimate, list[Prediction | TwinFaultError]]:
        """Predict shots that each start from the same balls; where a simulation cannot be trusted, say why.

        All shots see the same posterior draws, so that their predictions differ by the shot alone.

        Args:
            shots: to predict.
            balls: initial ones; empty = the newest observed.
            revision: of the estimate; None = the latest.
            ensemble: posterior draws; 0 = the mean only.
            times: when to sample the mean tracks [s].

        Raises:
            NotReadyError: no table or balls yet.
            UnknownNameError: no such revision.
            CueError: a shot or the balls make no sense.
        """
        twin, estimate, balls = self._ready(balls, revision)
        generator = np.random.default_rng([self.config.seed, estimate.revision])
        threads = self.config.threads or None
        return twin, estimate, predict_all(twin, balls, shots, estimate, times, ensemble, generator, threads)

    def look_ahead(
        self, shots: Sequence[Shot], balls: Sequence[BallState] = (), revision: int | None = None
    ) -> tuple[Twin, ParameterEstimate, list[Outlook | None]]:
        """Say what shots that each start from the same balls may do and teach; None where the twin cannot.

        Args:
            shots: to look at.
            balls: initial ones; empty = the newest observed.
            revision: of the estimate; None = the latest.

        Raises:
            NotReadyError: no table or balls yet.
            UnknownNameError: no such revision.
            CueError: a shot or the balls make no sense.
        """
        twin, estimate, balls = self._ready(balls, revision)
        config = self.config
        return twin, estimate, outlooks(twin, balls, shots, estimate, config.unknowns, config.threads or None)

    def _ready(
        self, balls: Sequence[BallState], revision: int | None
    ) -> tuple[Twin, ParameterEstimate, tuple[BallState, ...]]:
        estimate = self.estimate(revision)
        balls = tuple(balls) or self.balls
        if not balls:
            raise NotReadyError("no ball_states yet")
        return self.twin([b.ball_id for b in balls], estimate), estimate, balls

    def export(self) -> tuple[Path, Path] | None:
        """Write ``twin.json`` and ``twin.xml`` of the latest estimate into the run folder; None = not possible yet.

        Raises:
            FileFormatError: a file cannot be written.
        """
        if not self.config.run_dir or self.table is None or not self.balls:
            return None
        folder = Path(self.config.run_dir)
        twin = self.twin([b.ball_id for b in self.balls], self.latest)
        exact, portable = folder / "twin.json", folder / "twin.xml"
        save_twin(exact, twin, self.latest, self.balls)
        save_portable(portable, twin.table, twin.ball_ids, self.latest, self.balls)
        return exact, portable
