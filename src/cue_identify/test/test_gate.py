from dataclasses import replace

import numpy as np
import pytest

from cue_core.parameters import nominal_values
from cue_identify.errors import FitCode, FitError
from cue_identify.gate import judge, split
from cue_identify.scoring import ShotScore


@pytest.fixture
def records(fake_simulator, make_straight_records):
    return make_straight_records(fake_simulator(), nominal_values(), 10)


def ids(records):
    return [record.shot_id for record in records]


def scores(*errors):
    return [ShotScore(str(i), e, e) for i, e in enumerate(errors)]


def refused(code, *arguments):
    with pytest.raises(FitError) as caught:
        split(*arguments)
    assert caught.value.code is code
    return str(caught.value)


def test_the_newest_shots_judge_a_first_fit(records):
    found = split(records, (), (), (0, 1))
    assert ids(found.train) == ids(records[:7]) and ids(found.held_out) == ids(records[7:]) and found.borrowed


def test_half_of_the_new_shots_judge_a_refit(records):
    found = split(records, (), (), (0, 1), used=ids(records[:6]))
    assert ids(found.held_out) == ids(records[8:]) and len(found.train) == 8


def test_given_judges_are_kept_apart(records):
    found = split(records, (), ("shot-2",), (0, 1))
    assert ids(found.held_out) == ["shot-2"] and "shot-2" not in ids(found.train) and not found.borrowed


def test_few_shots_have_no_judges(records):
    assert split(records[:3], (), (), (0, 1)).held_out == ()


def test_bad_requests_are_refused(records):
    refused(FitCode.NO_SHOTS, [], (), (), (0, 1))
    assert "shot-99" in refused(FitCode.UNKNOWN_SHOT, records, ("shot-99",), (), (0, 1))
    assert "shot-1" in refused(FitCode.INVALID_GOAL, records, ("shot-1",), ("shot-1",), (0, 1))


def test_a_shot_copied_into_both_halves_is_found_by_its_data(records):
    copy = replace(records[0], shot_id="copy", index=77, strike_time=1e4)
    message = refused(FitCode.INVALID_GOAL, [*records, copy], (), ("copy",), (0, 1))
    assert "copy" in message and "shot-0" in message


def test_a_shot_that_is_there_twice_neither_fits_nor_judges_twice(records):
    copy = replace(records[9], shot_id="copy", index=77, strike_time=1e4)
    found = split([*records, copy], (), (), (0, 1))
    assert found.excluded == {"copy": "has the same data as shot shot-9"}
    assert "copy" not in ids(found.train) + ids(found.held_out)


def test_a_log_without_motion_has_no_information(records):
    still = [replace(r, tracks=(), flags=("no_motion",)) for r in records]
    refused(FitCode.NO_INFORMATION, still, (), (), (0, 1))


def test_flagged_shots_are_left_out_with_the_reason(records):
    flagged = replace(records[0], flags=("ball_lost",))
    assert "ball_lost" in split([flagged, *records[1:]], (), (), (0, 1)).excluded["shot-0"]
    refused(FitCode.NO_SHOTS, [flagged], (), (), (0, 1))


def test_better_is_promoted_and_worse_is_not():
    assert judge(scores(0.01, 0.01), scores(0.05, 0.05), "x", "held-out").promoted
    verdict = judge(scores(0.05, 0.05), scores(0.01, 0.01), "revision 3", "held-out")
    assert not verdict.promoted and "revision 3" in verdict.reason and "50.0 mm" in verdict.reason


def test_one_chaotic_shot_does_not_overrule_the_others():
    assert judge(scores(0.3, 0.01, 0.01), scores(0.1, 0.05, 0.05), "x", "held-out").promoted


def test_nothing_to_judge_by_promotes_nothing():
    assert not judge([], [], "x", "held-out").promoted
    assert not judge(scores(np.nan), scores(np.nan), "x", "held-out").promoted


def test_a_twin_that_fails_is_not_promoted():
    assert not judge(scores(np.inf, np.inf), scores(0.2, 0.2), "x", "held-out").promoted
