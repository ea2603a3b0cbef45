"""A lens measured with a board: recovered within its stated uncertainty, refused where the views do not tell it."""

from __future__ import annotations

import functools
import zlib

import cv2
import numpy as np
import pytest

from cue_core.errors import CueError
from cue_perception.board_print import print_board
from cue_perception.board_views import Collector
from cue_perception.boards import Board, parse_squares
from cue_perception.camera import Intrinsics
from cue_perception.lens_fit import LensFitError, fit_lens, lens_yaml

SIZE = (640, 400)
BOARD = Board()
TRUTH = Intrinsics(
    *SIZE, np.array([[545.0, 0, 326.3], [0, 548.2, 195.6], [0, 0, 1]]), np.array([-0.24, 0.09, 0.0011, -0.0007, 0.0])
)


_FINE = 3


@functools.cache
def _rays() -> np.ndarray:
    """Return the rays (n, 3) of 3 x 3 points in every pixel."""
    step = (np.arange(_FINE) - (_FINE - 1) / 2) / _FINE
    u = (np.arange(SIZE[0])[:, None] + step).ravel()
    v = (np.arange(SIZE[1])[:, None] + step).ravel()
    normalised = TRUTH.undistort(np.stack(np.meshgrid(u, v), -1).reshape(-1, 2))
    return np.column_stack([normalised, np.ones(len(normalised))])


def photograph(board: Board, pose: np.ndarray, rng: np.random.Generator, blur: float = 0.7) -> np.ndarray:
    """Return a picture (h, w, 3) of a board at ``pose`` (4, 4), camera_from_board [m], through the true lens."""
    rays = _rays()
    plane = np.linalg.inv(pose[:3][:, [0, 1, 3]])  # board coordinates of a ray, up to scale
    on_board = rays @ plane.T
    spot = on_board[:, :2] / on_board[:, 2:]
    cells = np.pad(board.cells, 4)  # a white rim
    cell = board.square / (board.cells.shape[0] / board.rows)
    at = np.floor(spot / cell).astype(int) + 4
    inside = (at >= 0).all(axis=1) & (at[:, 0] < cells.shape[1]) & (at[:, 1] < cells.shape[0])
    grey = np.full(len(rays), 120.0)
    grey[inside] = np.where(cells[at[inside, 1], at[inside, 0]], 30.0, 215.0)
    image = grey.reshape(SIZE[1], _FINE, SIZE[0], _FINE).mean(axis=(1, 3))
    image = cv2.GaussianBlur(image, (0, 0), blur)
    image = np.clip(image + rng.normal(0, 2.0, image.shape) + 0.5, 0, 255).astype(np.uint8)
    return np.repeat(image[..., None], 3, axis=2)


def place(board: Board, at: tuple[float, float], distance: float, tilt: tuple[float, float, float]) -> np.ndarray:
    """Return the pose (4, 4) of a board with its middle at ``at`` (-1..1 of the image), turned by ``tilt`` [rad]."""
    pose = np.eye(4)
    pose[:3, :3] = cv2.Rodrigues(np.array(tilt, float))[0]
    normalised = (np.array(at) * np.array(SIZE) / 2 + np.array(SIZE) / 2 - TRUTH.matrix[:2, 2]) / TRUTH.matrix[0, 0]
    middle = np.array([board.columns, board.rows, 0]) * board.square / 2
    pose[:3, 3] = np.array([*normalised * distance, distance]) - pose[:3, :3] @ middle
    return pose


def poses(board: Board, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    spots = [(x, y) for y in (-0.75, 0.0, 0.75) for x in (-0.75, -0.25, 0.25, 0.75)]
    low, high = np.array([-0.6, -0.6, -0.4]), np.array([0.6, 0.6, 0.4])
    return [place(board, spots[k % 12], rng.uniform(0.25, 0.42), tuple(rng.uniform(low, high))) for k in range(count)]


@pytest.fixture(scope="module")
def pictures() -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [photograph(BOARD, pose, rng) for pose in poses(BOARD, 24, np.random.default_rng(4))]


@pytest.fixture(scope="module")
def collected(pictures: list[np.ndarray]) -> Collector:
    collector = Collector(BOARD)
    for picture in pictures:
        collector.offer(picture)
    return collector


def _errors(fit) -> dict[str, tuple[float, float]]:
    """Return error and stated standard deviation by parameter."""
    truth = [TRUTH.matrix[0, 0], TRUTH.matrix[1, 1], TRUTH.matrix[0, 2], TRUTH.matrix[1, 2], *TRUTH.distortion]
    lens = fit.lens
    found = [lens.matrix[0, 0], lens.matrix[1, 1], lens.matrix[0, 2], lens.matrix[1, 2], *lens.distortion]
    names = ("fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2", "k3")
    return {n: (f - t, fit.stddev[n]) for n, f, t in zip(names, found, truth, strict=True) if n in fit.stddev}


def test_corners_are_found_to_a_fraction_of_a_pixel(pictures):
    for pose, picture in list(zip(poses(BOARD, 24, np.random.default_rng(4)), pictures, strict=True))[::6]:
        corners = BOARD.find(picture)
        assert corners is not None
        inside = BOARD.points[corners.ids] @ pose[:3, :3].T + pose[:3, 3]
        misses = np.linalg.norm(corners.pixels - TRUTH.distort(inside[:, :2] / inside[:, 2:]), axis=1)
        assert np.median(misses) < 0.15


def test_lens_is_recovered_within_its_stated_uncertainty(collected):
    assert collected.missing() == []
    fit = fit_lens(BOARD, [v.corners for v in collected.views], SIZE)
    assert fit.rms < 0.25 and fit.held_out_rms < 0.25 and fit.held_out >= 4
    errors = _errors(fit)
    z = np.array([error / sigma for error, sigma in errors.values()])
    assert np.abs(z).max() < 4, errors
    assert np.sqrt(np.mean(z**2)) < 2, errors
    assert errors["fx"][1] < 2.0 and errors["cx"][1] < 2.0, "small enough to be of use"
    # What it is for: where points appear, all over the image.
    grid = np.stack(np.meshgrid(np.linspace(10, SIZE[0] - 10, 9), np.linspace(10, SIZE[1] - 10, 7)), -1).reshape(-1, 2)
    assert np.abs(fit.lens.distort(TRUTH.undistort(grid)) - grid).max() < 2.0


def test_bad_views_are_left_out(collected):
    views = [v.corners for v in collected.views]
    bent = views[3].pixels + 2.5 * np.sin(views[3].pixels / 40.0)  # a board that was bent in this one
    views[3] = type(views[3])(views[3].ids, bent)
    fit = fit_lens(BOARD, views, SIZE)
    assert 3 in fit.rejected and 3 not in fit.used
    assert "miss by" in fit.rejected[3]
    assert len(fit.rejected) <= 4
    errors = _errors(fit)
    assert max(abs(e / s) for e, s in errors.values()) < 4, errors


def test_views_that_do_not_determine_a_lens_are_refused():
    # Flat, far and in the middle: focal length and distance cannot be told apart.
    rng = np.random.default_rng(2)
    collector = Collector(BOARD)
    for k in range(12):
        pose = place(BOARD, (0.05 * (k % 4) - 0.1, 0.05 * (k // 4)), 0.45, (0.0, 0.0, 0.35 * k))
        collector.offer(photograph(BOARD, pose, rng))
    needs = "; ".join(collector.missing())
    assert "top left" in needs and "bottom right" in needs
    assert "tilted forwards or backwards" in needs and "turned to the left or right" in needs
    with pytest.raises(LensFitError, match=r"known to .* % only|too few"):
        fit_lens(BOARD, [v.corners for v in collector.views], SIZE)


def test_pictures_that_are_no_use_are_told_apart(pictures):
    rng = np.random.default_rng(1)
    pose, near = (place(BOARD, (0.0, 0.0), d, (0.3, 0.1, 0.0)) for d in (0.35, 0.24))
    collector = Collector(BOARD)
    assert collector.offer(np.full((400, 640, 3), 90, np.uint8)) == "no board in sight"
    assert collector.offer(photograph(BOARD, near, rng, blur=2.0)).startswith("blurred")
    assert collector.offer(photograph(BOARD, pose, rng)) == ""
    assert collector.offer(photograph(BOARD, pose, rng)) == "like a view that is kept already"
    assert "640 x 400" in collector.offer(np.zeros((300, 300, 3), np.uint8))
    live = Collector(BOARD, live=True)
    assert live.offer(pictures[0]) == "hold the board still"
    assert live.offer(pictures[0]) == ""
    assert live.offer(pictures[5]) == "hold the board still"


@pytest.mark.parametrize("sigma", [0.6, 1.2])
def test_blur_is_measured(sigma):
    picture = photograph(BOARD, place(BOARD, (0, 0), 0.3, (0.2, 0.1, 0.1)), np.random.default_rng(0), blur=sigma)
    # Pixels and the search between them widen the edge by about a third of a pixel.
    assert BOARD.blur(picture, BOARD.find(picture)) == pytest.approx(2.5 * np.hypot(sigma, 0.4), rel=0.2)


def test_chessboard_is_found_whole_or_not_at_all():
    board = Board("chessboard", 9, 7, 0.03)
    rng = np.random.default_rng(0)
    pose = place(board, (0.1, 0.0), 0.4, (0.3, -0.2, 0.1))
    corners = board.find(photograph(board, pose, rng))
    assert corners is not None
    inside = board.points @ pose[:3, :3].T + pose[:3, 3]
    assert np.abs(corners.pixels - TRUTH.distort(inside[:, :2] / inside[:, 2:])).max() < 0.3
    assert board.find(photograph(board, place(board, (0.9, 0.0), 0.3, (0, 0, 0)), rng)) is None


def test_calibration_file_is_read_by_camera_node_and_tracker(collected, tmp_path):
    fit = fit_lens(BOARD, [v.corners for v in collected.views], SIZE)
    path = tmp_path / "lens.yaml"
    path.write_text(lens_yaml(fit, "cam", BOARD))
    lens = Intrinsics.load(path)
    assert (lens.width, lens.height) == SIZE
    assert np.array_equal(lens.matrix, fit.lens.matrix)
    assert np.array_equal(lens.distortion, fit.lens.distortion)
    assert "held_out_rms_px" in path.read_text()


def test_printed_boards_are_to_scale(tmp_path):
    print_board(BOARD, tmp_path / "board.png")
    data = (tmp_path / "board.png").read_bytes()
    per_metre = int.from_bytes(data[data.index(b"pHYs") + 4 :][:4], "big")
    image = cv2.imread(str(tmp_path / "board.png"), cv2.IMREAD_GRAYSCALE)
    corners = BOARD.find(cv2.resize(image, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA))
    assert corners is not None and len(corners.ids) == 70
    step = corners.pixels[1] - corners.pixels[0]
    assert np.hypot(*step) * 4 / per_metre == pytest.approx(BOARD.square, rel=2e-3)
    assert image.shape[1] / per_metre == pytest.approx(0.297, abs=1e-3)

    print_board(BOARD, tmp_path / "board.pdf")
    data = (tmp_path / "board.pdf").read_bytes()
    assert b"/MediaBox[0 0 841.8898 595.2756]" in data
    content = zlib.decompress(data[data.index(b"stream\n") + 7 : data.index(b"\nendstream")]).decode()
    boxes = [[float(v) for v in line.split()[:4]] for line in content.splitlines() if line.endswith("re f")]
    black = [b for b in boxes if b[2] > 5 and b[3] > 5]
    assert min(b[0] for b in black) * 25.4 / 72 == pytest.approx((297 - 264) / 2, abs=1e-3)
    assert max(b[0] + b[2] for b in black) * 25.4 / 72 == pytest.approx((297 + 264) / 2, abs=30.1)


def test_what_cannot_be_printed_is_said(tmp_path):
    with pytest.raises(CueError, match=r"does not fit on 297 x 210 mm.*squares of 25.2 mm do"):
        print_board(Board(square=0.03), tmp_path / "a.pdf")
    print_board(Board(square=0.03), tmp_path / "a.pdf", paper="420x297")
    with pytest.raises(CueError, match="paper is a4, a3, letter or"):
        print_board(BOARD, tmp_path / "a.pdf", paper="b9")
    with pytest.raises(CueError, match=r"\.pdf or \.png"):
        print_board(BOARD, tmp_path / "a.svg")
    with pytest.raises(CueError, match="11x8"):
        parse_squares("11 by 8")
    assert parse_squares("9x6") == (9, 6)


def test_command_prints_measures_and_refuses(pictures, tmp_path, capsys):
    from cue.cli import main

    folder = tmp_path / "views"
    folder.mkdir()
    for k, picture in enumerate(pictures[:6]):
        cv2.imwrite(str(folder / f"{k}.png"), picture)
    out = tmp_path / "lens.yaml"
    words = ["calibrate-camera", "--source", str(folder), "--out", str(out)]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "still needed" in said and said.count("\n") == 1
    assert not out.exists(), "too little coverage leaves nothing behind"
    for k, picture in enumerate(pictures):
        cv2.imwrite(str(folder / f"{k}.png"), picture)
    assert main([*words, "--print-board", str(tmp_path / "board.pdf")]) == 0
    said = capsys.readouterr().out
    assert "fx" in said and "+-" in said and "kept out of the fit" in said
    assert Intrinsics.load(out).matrix[0, 0] == pytest.approx(TRUTH.matrix[0, 0], abs=8)
    assert (tmp_path / "board.pdf").exists()
    assert main(["calibrate-camera"]) == 2
    assert "--source" in capsys.readouterr().err


class _Live:
    """A camera that shows each picture twice, as a hand that holds still does, and then goes dark for ever."""

    live, fps, count, stamp = True, 30.0, 0, 0.0

    def __init__(self, pictures: list[np.ndarray]) -> None:
        self.pictures, self.at = pictures, -1

    def read(self) -> np.ndarray:
        self.at += 1
        assert self.at < 2 * len(self.pictures), "it goes on though nothing is missing"
        return self.pictures[self.at // 2]

    def close(self) -> None:
        pass


def test_live_camera_is_watched_until_nothing_is_missing(pictures):
    import io

    from rich.console import Console

    from cue.calibrate_camera_command import collect, picture

    screen = Console(file=io.StringIO(), width=250, force_terminal=True)
    collector = Collector(BOARD, wanted=18, live=True)
    collector.offer(pictures[0])
    collector.offer(pictures[0])
    screen.print(picture(collector, "hold the board still", live=True))
    shown = screen.file.getvalue()
    for words in ("1 of 18 views kept", "hold the board still", "needed:", "bottom right", "edges", "Ctrl-C"):
        assert words in shown
    camera = _Live(pictures)
    refused = collect(camera, collector, screen)
    assert collector.missing() == []
    assert len(collector.views) >= 18
    assert refused["hold the board still"] >= 15, "what moves from image to image is not kept"
