"""The score cuts the true history into shots."""

from __future__ import annotations

import numpy as np

from cue_sim.score import ScoreKeeper, TrueFrame


def _frame(frame: int, x: float, moving: bool, pocketed: bool = False) -> TrueFrame:
    return TrueFrame(frame, frame / 30, np.array([[x, 0.0], [0.3, 0.1]]), np.array([pocketed, False]), moving)


def test_a_shot_runs_from_the_last_rest_to_the_next() -> None:
    keeper = ScoreKeeper((0, 3))
    for frame in range(3):
        assert keeper.add(_frame(frame, 0.0, False)) is None
    for frame in (3, 4, 5):
        assert keeper.add(_frame(frame, 0.1 * frame, True)) is None
    line = keeper.add(_frame(6, 0.7, False))
    assert line is not None
    assert (line["begin_s"], line["end_s"]) == (2 / 30, 6 / 30)
    assert [ball["position"] for ball in line["after"]] == [[0.7, 0.0], [0.3, 0.1]]
    assert [track["id"] for track in line["tracks"]] == [0]
    assert len(line["t"]) == len(line["tracks"][0]["x"]) == 4
    assert keeper.add(_frame(7, 0.7, False)) is None


def test_a_repeated_frame_counts_once() -> None:
    keeper = ScoreKeeper((0, 3))
    keeper.add(_frame(0, 0.0, False))
    keeper.add(_frame(1, 0.1, True))
    assert keeper.add(_frame(1, 0.1, True)) is None
    line = keeper.add(_frame(2, 0.2, False))
    assert line is not None and len(line["t"]) == 2


def test_a_tap_between_two_frames_is_a_shot_too() -> None:
    keeper = ScoreKeeper((0, 3))
    keeper.add(_frame(0, 0.0, False))
    line = keeper.add(_frame(1, 0.002, False))
    assert line is not None and line["tracks"][0]["x"] == [0.002]


def test_a_pocketed_ball_is_told() -> None:
    keeper = ScoreKeeper((0, 3))
    keeper.add(_frame(0, 0.0, False))
    keeper.add(_frame(1, 0.4, True))
    line = keeper.add(_frame(2, 0.5, False, pocketed=True))
    assert line is not None and line["tracks"][0]["pocketed"]
