"""Rendered shots from image to record, and what survives a kill."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import cv2
import numpy as np
import pytest

from cue_core.balls import Visibility
from cue_core.shots import Shot, ShotRecord, Stroke
from cue_perception.pipeline import Outcome, Pipeline, TrackerConfig
from cue_perception.recorder import Execution, Phase
from cue_perception.saved import SavedState
from cue_perception.stamps import Verdict
from cue_perception.testing import SMALL, Scene, lens_640, look_at

FPS = 30
R = SMALL.ball_radius


@dataclass
class Session:
    """A rendered table in front of a pipeline."""

    scene: Scene
    pipeline: Pipeline
    balls: dict[int, np.ndarray]
    rng: np.random.Generator
    frame: int = 0
    records: list[ShotRecord] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def time(self) -> float:
        return self.frame / FPS

    def show(self, overlay=None) -> Outcome:
        image = self.scene.render(self.balls, self.rng, overlay)
        begin = time.process_time()
        out = self.pipeline.process(image, round(self.frame * 1e9 / FPS), self.scene.camera.intrinsics)
        self.seconds.append(time.process_time() - begin)
        self.frame += 1
        if out.record is not None:
            self.records.append(out.record)
        return out

    def settle(self) -> Outcome:
        for _ in range(60):
            out = self.show()
            if out.settled:
                return out
        raise AssertionError(f"never settled: {self.pipeline.problem}, {out.balls}")

    def tell(self, shot: Shot, phase: Phase, stroke: Stroke | None = None, error: int = 0, pace: float = 0.0) -> None:
        record = self.pipeline.on_execution(Execution(shot, phase, (self.frame - 1) / FPS, stroke, error, pace))
        if record is not None:
            self.records.append(record)

    def roll(self, ball_id: int, velocity: np.ndarray, start: float, deceleration: float = 1.2) -> None:
        """Show images until a ball struck ``start`` [s] after the last image has come to rest, with a reserve."""
        origin, speed = self.balls[ball_id].copy(), float(np.linalg.norm(velocity))
        struck = self.time - 1 / FPS + start
        while self.time < struck + speed / deceleration + 0.1:
            t = np.clip(self.time - struck, 0, speed / deceleration)
            self.balls[ball_id] = origin + velocity / speed * (speed * t - 0.5 * deceleration * t**2)
            self.show()
        self.struck = struck


@pytest.fixture
def session() -> Session:
    scene = Scene(look_at(lens_640(), (0.0, -0.15, 1.15)), samples=2)
    balls = {0: np.array([-0.3, 0.0]), 1: np.array([0.2, 0.1]), 3: np.array([0.1, -0.15]), 8: np.array([-0.4, 0.2])}
    pipeline = Pipeline(TrackerConfig(ball_ids=[0, 1, 3, 5, 6, 8]), SMALL)
    return Session(scene, pipeline, balls, np.random.default_rng(11))


def test_shot_is_recorded_from_strike_to_rest(session):
    first = session.settle()
    assert first.frame <= 25
    assert {b.ball_id for b in first.balls} == {0, 1, 3, 8}
    before = {i: p.copy() for i, p in session.balls.items()}
    shot, stroke = Shot("a", 0.7, 0.3), Stroke(0.69, 0.31)
    session.tell(shot, Phase.STARTED)
    assert session.show().open_shot_id == "a"
    session.roll(0, 0.8 * np.array([np.cos(0.3), np.sin(0.3)]), start=0.11)
    session.tell(shot, Phase.STRUCK, stroke)
    session.tell(shot, Phase.FINISHED, stroke)
    session.settle()
    [record] = session.records
    assert (record.shot_id, record.index, record.flags) == ("a", 0, ())
    assert record.commanded == shot
    assert record.achieved == stroke
    assert record.usable
    assert record.moved_ball_ids() == (0,)
    assert record.strike_time == pytest.approx(session.struck, abs=4e-3)
    assert abs(record.strike_time - session.struck) < 4 * record.strike_time_stddev
    for state in record.before:
        assert state.position == pytest.approx(before[state.ball_id], abs=1e-3)
    for state in record.after:
        assert state.position == pytest.approx(session.balls[state.ball_id], abs=1e-3)
    track = record.tracks[0]
    assert np.all(np.diff(track.time) > 0)
    assert 0 < track.time[0] < 2 / FPS
    t = track.time + record.strike_time - session.struck
    along = np.linalg.norm(track.position - before[0], axis=1)
    t = np.clip(t, 0, 0.8 / 1.2)
    assert np.median(np.abs(along - (0.8 * t - 0.6 * t**2))) < 1.5e-3
    assert np.median(session.seconds[10:]) < 0.1


def test_stroke_that_moves_nothing_is_a_record_too(session):
    session.settle()
    shot = Shot("b", 0.5, 0.0)
    session.tell(shot, Phase.STARTED)
    session.show()
    session.tell(shot, Phase.FINISHED, None, error=5)
    [record] = session.records
    assert record.flags == ("no_motion", "stroke_failed")
    assert not record.usable
    session.tell(shot, Phase.FINISHED, None, error=5)  # latched news comes again
    assert len(session.records) == 1


def test_motion_without_command_has_no_id(session):
    session.settle()
    session.roll(3, np.array([0.0, 0.35]), start=0.05)
    session.settle()
    [record] = session.records
    assert record.shot_id == ""
    assert record.commanded is None
    assert record.moved_ball_ids() == (3,)


def test_a03_a_slowed_robot_flags_the_shot_and_leaves_it_usable(session):
    session.settle()
    shot = Shot("slow", 0.5, 0.0)
    session.tell(shot, Phase.STARTED)
    session.roll(0, np.array([0.3, 0.0]), start=0.08)
    session.tell(shot, Phase.FINISHED, Stroke(0.225, 0.0), pace=0.45)
    session.settle()
    [record] = session.records
    assert record.flags == ("slowed",) and record.usable
    assert record.achieved.tip_speed == 0.225


def test_a06_abort_after_the_strike_keeps_the_shot(session):
    session.settle()
    shot = Shot("c", 0.5, 0.0)
    session.tell(shot, Phase.STARTED)
    session.roll(0, np.array([0.6, 0.0]), start=0.08)
    session.tell(shot, Phase.FINISHED, Stroke(0.5, 0.0), error=5)
    session.settle()
    assert session.records[0].flags == ("struck_then_aborted",)


def test_bar_over_a_ball_hides_it_and_moves_nothing(session):
    # V02 in images: an 80 px bar over the cue ball for 25 images.
    session.settle()
    u = session.scene.camera.project(np.array([*session.balls[0], R]))[0]

    def bar(image: np.ndarray) -> None:
        cv2.rectangle(image, (int(u) - 40, 0), (int(u) + 40, 359), (60, 90, 130), -1)

    for k in range(25):
        out = session.show(bar)
        ball = out.balls[0]
        assert ball.visibility == Visibility.OCCLUDED, k
        assert ball.position == pytest.approx(session.balls[0], abs=1e-3)
        assert out.settled
    # The bar leaves sideways, so that it shows ever more of the ball: no part of one may look like motion.
    for shift in range(0, 60, 3):

        def leaving(image: np.ndarray, shift: int = shift) -> None:
            cv2.rectangle(image, (int(u) - 40 + shift, 0), (int(u) + 40 + shift, 359), (60, 90, 130), -1)

        out = session.show(leaving)
        assert out.settled
        assert out.balls[0].position == pytest.approx(session.balls[0], abs=1.5e-3)
    assert session.show().balls[0].visibility == Visibility.VISIBLE
    assert not session.records


def test_every_image_has_one_answer_and_repeats_change_nothing(session):
    out = session.settle()
    image = session.scene.render({}, session.rng)  # all balls gone: would matter if it were looked at
    again = session.pipeline.process(image, out.stamp, session.scene.camera.intrinsics)
    assert again.stamp == out.stamp
    assert again.balls == out.balls
    assert again.frame == out.frame
    old = session.pipeline.process(image, out.stamp - 5, session.scene.camera.intrinsics)
    assert old.verdict == Verdict.OUT_OF_ORDER
    assert old.frame == out.frame


def test_same_images_give_the_same_bits(session):
    images = [session.scene.render(session.balls, session.rng) for _ in range(18)]
    answers = []
    for _ in range(2):
        pipeline = Pipeline(TrackerConfig(), SMALL)
        outs = [pipeline.process(m, k * 33_333_333, session.scene.camera.intrinsics) for k, m in enumerate(images)]
        answers.append(np.array([b.position for b in outs[-1].balls]))
    assert np.array_equal(*answers)


def test_state_survives_a_kill(session, tmp_path):
    session.settle()
    shot = Shot("d", 0.5, 0.0)
    session.tell(shot, Phase.STARTED)
    session.show()
    path = tmp_path / "tracker.json"
    session.pipeline.save().write(path)
    session.pipeline = Pipeline(TrackerConfig(), SMALL, SavedState.read(path), [])
    session.balls[0] = session.balls[0] + [0.12, 0.03]  # it rolled on while nobody looked
    first = session.show()
    assert first.calibrated
    assert first.open_shot_id == "d"
    session.settle()
    session.tell(shot, Phase.FINISHED, Stroke(0.5, 0.0))
    session.settle()
    [record] = session.records
    assert record.flags == ("incomplete",)
    assert record.index == 0
    assert {b.ball_id for b in record.after} == {0, 1, 3, 8}
    assert record.after[0].position == pytest.approx(session.balls[0], abs=1e-3)


def test_finished_shots_are_not_recorded_again_after_a_kill(session, tmp_path):
    session.settle()
    shot = Shot("e", 0.5, 0.0)
    session.tell(shot, Phase.STARTED)
    session.roll(0, np.array([0.5, 0.0]), start=0.05)
    session.tell(shot, Phase.FINISHED, Stroke(0.5, 0.0))
    session.settle()
    path = tmp_path / "tracker.json"
    session.pipeline.save().write(path)
    session.pipeline = Pipeline(TrackerConfig(), SMALL, SavedState.read(path), list(session.records))
    session.settle()
    session.tell(shot, Phase.FINISHED, Stroke(0.5, 0.0))  # the latched message comes to the new life
    assert len(session.records) == 1
    assert session.pipeline.recorder.next_index == 1


def test_camera_that_moved_is_calibrated_anew(session, tmp_path):
    session.settle()
    path = tmp_path / "tracker.json"
    session.pipeline.save().write(path)
    session.scene = Scene(look_at(lens_640(), (0.02, -0.2, 1.2)), samples=2)
    session.pipeline = Pipeline(TrackerConfig(), SMALL, SavedState.read(path), [])
    assert not session.show().calibrated
    out = session.settle()
    assert {b.ball_id for b in out.balls} == {0, 1, 3, 8}
    assert out.balls[0].position == pytest.approx(session.balls[0], abs=1e-3)


def test_time_that_starts_again_is_followed(session):
    session.settle()
    session.tell(Shot("f", 0.5, 0.0), Phase.STARTED)
    session.frame = 0
    for _ in range(6):
        session.show()
    [record] = session.records
    assert "time_reset" in record.flags
    assert {b.ball_id for b in session.settle().balls} == {0, 1, 3, 8}
