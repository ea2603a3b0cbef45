"""``cue import``: recordings made elsewhere as shot logs."""

import gzip
import json

import numpy as np
import pytest

from cue.cli import main
from cue_core.shot_log import ShotLog

STILL = {"t": [0.0, 9.0], "x": [2.0, 2.0], "y": [1.0, 1.0]}
YELLOW = {"t": [0.0, 1.00, 1.02, 1.04, 1.06, 4.0], "x": [1.42, 1.43, 1.46, 1.49, 2.80925, 1.90], "y": [0.71] * 6}
RED = {"t": [0.0, 2.00, 2.02, 5.0], "x": [0.5, 0.52, 0.54, 0.6], "y": [0.3] * 4}


def recording(path, *rows, **balls):
    rows = rows or ({"shotID": 41, "balls": {"white": STILL, "yellow": YELLOW, "red": RED, **balls}},)
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return str(path)


@pytest.mark.parametrize("name", ["shots.json.gz", "other.jsonl"])
def test_a_recording_becomes_a_log(tmp_path, capsys, name):
    log = tmp_path / "log.jsonl"
    assert main(["import", recording(tmp_path / name), "--out", str(log)]) == 0
    assert "1 shots, 2 tracks" in capsys.readouterr().out
    [record] = ShotLog(log).read()
    assert (record.shot_id, record.index, record.commanded, record.achieved) == ("41", 0, None, None)
    assert not record.usable  # nobody measured the stroke
    # the struck ball, here the yellow one, is ball 0; table frame: the origin is the bed's centre
    assert [(b.ball_id, b.colour) for b in record.before] == [(0, "yellow"), (1, "white"), (3, "red")]
    assert np.allclose(record.before[0].position, 0) and np.allclose(record.after[0].position, [0.48, 0])
    cue, red = record.tracks
    # its samples say 30 mm in 20 ms, and it was 10 mm away at 1.00 s; the one on the border was moved there: left out
    assert record.strike_time == pytest.approx(1.0 - 0.01 / 1.5)
    assert np.allclose(cue.time + record.strike_time, [0.0, 1.00, 1.02, 1.04, 4.0])
    assert red.ball_id == 3 and np.allclose(red.position[0], [0.5 - 1.42, 0.3 - 0.71])
    assert np.allclose(red.covariance, np.eye(2) * 0.9e-3**2)


def test_what_is_wrong_is_said_and_nothing_written(tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    late = {"shotID": 42, "balls": {"white": STILL, "yellow": STILL, "red": RED}}
    for source, words, problem in (
        (str(tmp_path / "none.jsonl"), [], "no such file"),
        (recording(tmp_path / "a.jsonl", yellow={"t": [0.0], "x": [], "y": []}), [], "line 1, yellow: t, x and y have"),
        (recording(tmp_path / "b.jsonl", late), [], "shot 42 begins with the red ball"),
        (recording(tmp_path / "c.jsonl"), ["--table", "small"], "leaves the table"),
        (recording(tmp_path / "d.jsonl"), ["--table", "none"], "none"),
    ):
        assert main(["import", source, "--out", str(log), *words]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and problem in error.replace(": begins", " begins")
        assert not log.exists()


def test_shots_are_imported_once(tmp_path, capsys):
    log, source = str(tmp_path / "log.jsonl"), recording(tmp_path / "shots.jsonl")
    more = {"shotID": 50, "balls": {"white": YELLOW, "yellow": STILL, "red": STILL}}
    assert main(["import", source, "--out", log]) == 0
    assert main(["import", source, "--out", log]) == 2
    assert "holds shot 41 already" in capsys.readouterr().err
    assert main(["import", recording(tmp_path / "more.jsonl", more), "--out", log]) == 0
    assert [(r.shot_id, r.index) for r in ShotLog(log).read()] == [("41", 0), ("50", 1)]
