"""The self-check: each check fires where it should, and on nothing else (FAULTS V10, V13, V14)."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from cue_core.balls import Visibility
from cue_core.shots import Shot, Stroke
from cue_perception.edge_watch import EdgeWatch
from cue_perception.frame_watch import FrameWatch
from cue_perception.health import SelfCheck
from cue_perception.light_watch import LightWatch
from cue_perception.pipeline import Pipeline, TrackerConfig
from cue_perception.recorder import Execution, Phase
from cue_perception.stamps import StampGuard
from cue_perception.testing import SMALL, Scene, lens_640, look_at

FPS = 30
BALLS = {0: (-0.3, 0.0), 1: (0.2, 0.1), 3: (0.1, -0.15), 8: (-0.4, 0.2)}


@pytest.fixture(scope="module")
def scene() -> Scene:
    made = Scene(look_at(lens_640(), (0.0, -0.15, 1.15)), samples=1)
    made.background()
    return made


@pytest.fixture(scope="module")
def still(scene) -> np.ndarray:
    """Return the table with balls at rest, (h, w, 3) BGR 0..255 without noise."""
    picture = np.ascontiguousarray(scene.clean({i: np.array(p) for i, p in BALLS.items()})[..., ::-1]) * 255
    return cv2.GaussianBlur(picture, (0, 0), scene.blur)


def nudged(picture: np.ndarray, right: float = 11.0, down: float = -6.0, degrees: float = 0.4) -> np.ndarray:
    """Return a picture as seen after the camera was nudged, turned clockwise."""
    height, width = picture.shape[:2]
    move = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), -degrees, 1.0)
    move[:, 2] += right, down
    return cv2.warpAffine(picture, move, (width, height), borderMode=cv2.BORDER_REPLICATE)


_NOISE = np.random.default_rng(3).normal(0, 1, (2 * 360, 2 * 640, 3)).astype(np.float32)


def noisy(picture: np.ndarray, rng: np.random.Generator, sigma: float = 1.5) -> np.ndarray:
    """Return an image of a picture; drawing fresh noise each time would take most of these tests' time."""
    u, v = rng.integers(0, 640), rng.integers(0, 360)
    noise = _NOISE[v : v + 360, u : u + 640]
    return np.clip(picture.astype(np.float32) + np.float32(sigma) * noise + 0.5, 0, 255).astype(np.uint8)


class _Watch:
    """A self-check that has learnt the still picture and is shown others."""

    def __init__(self, scene: Scene, still: np.ndarray) -> None:
        self.rng, self.frame, self.still = np.random.default_rng(7), 0, still
        self.check = SelfCheck(SMALL)
        self.check.learn(scene.camera, noisy(still, self.rng, 0.6))

    def show(self, picture: np.ndarray, images: int = 1) -> frozenset[str]:
        for _ in range(images):
            self.frame += 1
            self.check.look(noisy(picture, self.rng), self.frame / FPS)
        return self.check.flags


@pytest.fixture
def watch(scene, still) -> _Watch:
    return _Watch(scene, still)


def sleeve(picture: np.ndarray, x: float) -> np.ndarray:
    """Return a picture with a white sleeve and a hand reaching in from the top to column x [px]."""
    shown = picture.copy()
    cv2.line(shown, (int(x) - 200, -40), (int(x), 150), (230, 232, 235), 60, cv2.LINE_AA)
    cv2.circle(shown, (int(x) + 8, 160), 16, (120, 150, 210), -1, cv2.LINE_AA)
    return shown


def test_clean_images_with_an_arm_moving_through_raise_nothing(watch, still):
    for k in range(90):
        assert watch.show(still if k < 30 else sleeve(still, 12.0 * (k - 30))) == frozenset()
        assert not watch.check.moved
        assert not watch.check.suspect
        assert watch.check.corrected(noisy(still, watch.rng)).dtype == np.uint8
    assert watch.check.edges.motion.size < 0.25


def test_v10_nudge_is_measured_within_a_third_of_a_second(watch, still):
    watch.show(still, 20)
    moved = nudged(still)
    watch.show(moved)
    assert watch.check.suspect, "the very first image is not measured"
    assert not watch.check.moved, "one image proves nothing"
    watch.show(moved, FPS // 3)
    motion = watch.check.edges.moved
    assert motion.shift == pytest.approx([11, -6], abs=0.5)
    assert np.degrees(motion.turn) == pytest.approx(0.4, abs=0.06)
    assert "(+1" in watch.check.moved


def test_nudge_under_a_sleeve_is_seen_too(watch, still):
    watch.show(still, 20)
    watch.show(nudged(sleeve(still, 240)), FPS)
    assert watch.check.edges.moved.shift == pytest.approx([11, -6], abs=0.8)


def test_raised_and_tilted_cameras_are_noticed(scene, still, watch):
    watch.show(still, 10)
    corner = np.array([[0, 0], [639, 0], [639, 359], [0, 359]], np.float32)
    middle = np.array([319.5, 179.5], np.float32)
    raised = cv2.getPerspectiveTransform(corner, middle + (corner - middle) * np.float32(0.985))
    watch.show(cv2.warpPerspective(still, raised, (640, 360), borderMode=cv2.BORDER_REPLICATE), 10)
    assert watch.check.edges.moved.growth == pytest.approx(-0.015, abs=0.002)
    other = _Watch(scene, still)
    other.show(still, 10)
    bent = corner + np.array([[9, 7], [-9, 7], [0, 0], [0, 0]], np.float32)
    tilted = cv2.getPerspectiveTransform(corner, bent)
    other.show(cv2.warpPerspective(still, tilted, (640, 360), borderMode=cv2.BORDER_REPLICATE), 15)
    assert "moved" in other.check.moved


def test_slow_drift_is_told_with_its_size_before_it_spoils_anything(watch, still):
    for k in range(240):
        watch.show(nudged(still, 0.6 * k / 240, 0.0, 0.0))
        assert not watch.check.moved
    assert watch.check.flags == {"camera_drift"}
    assert watch.check.edges.drift.size == pytest.approx(0.5, abs=0.12)
    watch.show(nudged(still, 1.4, 0.0, 0.0), 10)
    assert watch.check.moved


def test_shaking_camera_has_not_moved(watch, still):
    for k in range(30):
        flags = watch.show(nudged(still, *((2.0, 1.0) if k % 2 else (-2.0, -1.0)), 0.0))
        assert not watch.check.moved
    assert flags == {"camera_shakes"}
    assert not watch.check.suspect, "flagged, but measured with"
    assert watch.show(still, 10) == frozenset()


def test_blocked_view_is_told_and_given_up_only_later(watch, still):
    watch.show(still, 10)
    person = still.copy()
    person[:, 60:] = (60, 90, 60)
    assert watch.show(person, FPS) == frozenset()
    assert watch.show(person, FPS) == {"view_blocked"}
    assert not watch.check.moved
    watch.show(person, 3 * FPS)
    assert "hides the table" in watch.check.moved
    assert watch.show(still, FPS) == frozenset()


def test_coat_over_a_third_of_the_table_is_learnt_and_forgotten_again(watch, still):
    watch.show(still, 10)
    coat = still.copy()
    coat[:, :260] = (40, 70, 120)
    for picture in (coat, still):
        for _ in range(120):
            assert watch.show(picture) == frozenset()
            assert not watch.check.moved
    assert watch.check.edges.seen > 0.95
    watch.show(coat, 60)
    moved = []
    for _ in range(FPS // 2):
        watch.show(nudged(coat))
        moved += [watch.check.edges.moved] if watch.check.edges.moved else []
    assert moved[0].shift == pytest.approx([11, -6], abs=2), "with fewer cushions, the nudge is known less well"


def test_lost_focus_and_its_return(watch, still):
    watch.show(still, 30)
    assert watch.show(cv2.GaussianBlur(still, (0, 0), 1.2), 45) == {"blurred"}
    assert watch.check.edges.sharpness < 0.7
    assert watch.show(still, 45) == frozenset()


def test_smear_on_the_lens_is_named_by_its_place(watch, still):
    watch.show(still, 30)
    smeared = still.copy()
    smeared[:180, :270] = cv2.GaussianBlur(still, (0, 0), 2.0)[:180, :270]
    assert watch.show(smeared, 150) == {"lens_dirty"}
    [text] = [issue.text for issue in watch.check.issues]
    assert "top left" in text


@pytest.mark.parametrize(
    ("gains", "flag"), [((0.85, 1.0, 1.2), "white balance"), ((1.35, 1.35, 1.35), "exposure"), ((1.0, 1.0, 1.0), "")]
)
def test_light_is_measured_and_allowed_for(watch, still, gains, flag):
    watch.show(still, 10)
    shown = np.clip(still * gains, 0, 255)
    flags = watch.show(shown, 80)
    assert flags == ({"light_changed"} if flag else frozenset())
    assert all(flag in issue.text for issue in watch.check.issues)
    assert watch.check.light.gains == pytest.approx(gains, rel=0.015)
    corrected = watch.check.corrected(noisy(shown, watch.rng)).astype(float)
    dull = still.max(axis=2) < 170
    assert np.abs(np.median(corrected[dull] - still[dull], axis=0)).max() < 1.6


def test_switched_lamp_is_followed_within_a_third_of_a_second(watch, still):
    watch.show(still, 10)
    watch.show(still * 0.7, FPS // 3)
    assert watch.check.light.gain == pytest.approx(0.7, abs=0.03)


def test_glare_and_darkness(watch, still):
    watch.show(still, 10)
    assert "overexposed" in watch.show(np.clip(still * 2.6, 0, 255), 60)
    assert "dark" in watch.show(still * 0.03, 90)
    assert not watch.check.moved


def test_table_too_dull_or_out_of_view_is_not_watched(scene):
    blank = np.full((360, 640, 3), 90, np.uint8)
    edges = EdgeWatch(scene.camera, SMALL, blank)
    assert not edges.works
    far = Scene(look_at(lens_640(), (3.0, 0.0, 1.0), (6.0, 0.0, 0.0)), samples=1)
    light = LightWatch(far.camera, SMALL, blank)
    assert not light.works
    light.look(blank)
    assert light.corrected(blank) is blank
    check = SelfCheck(SMALL)
    check.learn(scene.camera, blank)
    check.look(blank, 0.0)
    assert check.flags == frozenset()


def test_v14_lost_and_disordered_images_are_counted():
    guard, frames = StampGuard(), FrameWatch()
    stamps = [k * 33_333_333 for k in range(200)]
    for k in range(100, 200, 10):
        stamps[k], stamps[k + 1] = stamps[k + 1], stamps[k]
    told = []
    for stamp in stamps:
        frames.note(stamp, guard.judge(stamp))
        told.append(frames.losing is not None)
    assert not any(told[:100])
    assert any(told[100:])
    assert frames.disordered == 10
    assert frames.rate == pytest.approx(30, rel=0.01)
    for k in range(300, 360):
        if k % 4:
            frames.note(k * 33_333_333, guard.judge(k * 33_333_333))
    assert frames.losing == pytest.approx(0.25, abs=0.05)
    for k in range(400, 460):  # after a pause all is well
        frames.note(k * 33_333_333, guard.judge(k * 33_333_333, waits=True))
    assert frames.losing is None


class _Session:
    """A rendered table in front of a pipeline; ``alter`` is done to every picture."""

    def __init__(self, scene: Scene, **config) -> None:
        self.scene, self.rng, self.frame = scene, np.random.default_rng(9), 0
        self.balls = {i: np.array(p) for i, p in BALLS.items()}
        self.pipeline = Pipeline(TrackerConfig(ball_ids=[0, 1, 3, 5, 6, 8], **config), SMALL)
        self.alter = lambda picture: picture
        self.records = []
        self.drawn = {}

    def show(self):
        key = tuple(map(tuple, self.balls.values()))
        if key not in self.drawn:
            self.drawn = {key: np.ascontiguousarray(self.scene.clean(self.balls)[..., ::-1], np.float32) * 255}
        picture = cv2.GaussianBlur(self.alter(self.drawn[key].copy()), (0, 0), self.scene.blur)
        out = self.pipeline.process(
            noisy(picture, self.rng), round(self.frame * 1e9 / FPS), self.scene.camera.intrinsics
        )
        self.frame += 1
        self.keep(out.record)
        return out

    def keep(self, record) -> None:
        if record is not None:
            self.records.append(record)

    def settle(self):
        for _ in range(60):
            out = self.show()
            if out.settled:
                return out
        raise AssertionError(f"never settled: {self.pipeline.problem}")

    def tell(self, shot: Shot, phase: Phase, stroke: Stroke | None = None) -> None:
        self.keep(self.pipeline.on_execution(Execution(shot, phase, (self.frame - 1) / FPS, stroke)))

    def roll(self, speed: float, images: int, nudge_at: int | None = None) -> None:
        start = self.balls[0].copy()
        for k in range(images):
            if k == nudge_at:
                self.alter = nudged
            t = min((k + 1) / FPS, speed / 1.2)
            self.balls[0] = start + np.array([speed * t - 0.6 * t * t, 0.0])
            self.show()


def test_v10_nudge_during_a_shot_keeps_its_record_out_and_is_mended(scene):
    session = _Session(scene)
    session.settle()
    before = session.pipeline.reconstruction
    shot, stroke = Shot("a", 0.5, 0.0), Stroke(0.5, 0.0)
    session.tell(shot, Phase.STARTED)
    session.roll(0.5, 12, nudge_at=4)
    assert not session.show().calibrated
    [issue] = session.pipeline.check.issues
    assert issue.grave
    assert "moved" in issue.text
    session.tell(shot, Phase.FINISHED, stroke)
    session.roll(0.0, 12)
    out = session.settle()
    assert out.calibrated
    assert session.pipeline.reconstruction is not before
    [record] = session.records
    assert record.shot_id == "a"
    assert "camera_moved" in record.flags
    assert not record.usable
    fitter = pytest.importorskip("cue_identify.observations")
    assert fitter.why_unusable(record, [0, 1, 3, 8]).startswith("flagged camera_moved")
    assert session.pipeline.check.flags == frozenset()
    for ball in out.balls:  # same names, same frame, by the new pose
        assert ball.visibility == Visibility.VISIBLE
        assert ball.position == pytest.approx(session.balls[ball.ball_id], abs=1.5e-3)
    shot = Shot("b", 0.4, 0.0)
    session.tell(shot, Phase.STARTED)
    session.show()
    session.roll(0.4, 14)
    session.tell(shot, Phase.FINISHED, Stroke(0.4, 0.0))
    session.settle()
    assert session.records[-1].flags == ()
    assert session.records[-1].usable


def test_nudge_at_rest_moves_no_ball_and_makes_no_record(scene):
    session = _Session(scene)
    session.settle()
    session.alter = nudged
    lost = 0
    for _ in range(45):
        out = session.show()
        lost += not out.calibrated
        for ball in out.balls:
            assert ball.position == pytest.approx(session.balls[ball.ball_id], abs=1.5e-3)
    assert out.settled
    assert 0 < lost < 30
    assert not session.records


def test_v13_white_balance_ramp_with_a_white_sleeve(scene):
    lamps = Scene(scene.camera, samples=1, highlights=3)
    session = _Session(lamps)
    session.pipeline = Pipeline(TrackerConfig(), SMALL)  # any of the sixteen may lie there
    spot = tuple(int(v) for v in lamps.camera.project(np.array([0.27, 0.0, 0.0])))

    def alter(picture: np.ndarray) -> np.ndarray:
        t = max(session.frame / FPS - 0.8, 0.0)
        cv2.circle(picture, spot, 4, (225, 228, 230), -1, cv2.LINE_AA)
        share = min(t / 3, 1.0)
        return sleeve(picture, 110 * t - 60) * [1 - 0.15 * share, 1.0, 1 + 0.2 * share]

    session.alter = alter
    for k in range(125):
        out = session.show()
        if k > 23:
            assert {b.ball_id for b in out.balls} == set(BALLS), f"image {k}"
            for ball in out.balls:
                assert ball.visibility in (Visibility.VISIBLE, Visibility.OCCLUDED)
                assert ball.position == pytest.approx(BALLS[ball.ball_id], abs=2e-3)
    assert session.pipeline.check.flags == {"light_changed"}
    assert not session.records
