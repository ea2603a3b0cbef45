"""One decision after each shot: each rule with the numbers that call for it, the shares of the budgets, surprises."""

import math
from dataclasses import asdict, replace

import numpy as np
import pytest

from cue_agent.budgets import plan, spent_compute
from cue_agent.config import AgentConfig
from cue_agent.journal import EXPLORE, HELD_OUT, Action, Journal
from cue_agent.judgement import Facts, enough, judge
from cue_agent.steps import Choose, Fit, Judge, RefinePerception, RollBack, next_step
from cue_agent.surprise import (
    REGIONS,
    TRAITS,
    WORST,
    Expectation,
    Residual,
    Surprise,
    brier,
    coverage95,
    dispersion,
    likely,
    residual,
)
from cue_agent.testing import FakePeers, small_table
from cue_core.balls import Visibility
from cue_core.shots import Shot

CONFIG = AgentConfig(shots=20, held_out_shots=5, terms_from=99)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Story:
    """A journal, told shot by shot."""

    def __init__(self, shots=20, held_out=5):
        self.clock = Clock()
        self.journal = Journal("", self.clock)
        self.journal.begin(instruction="", shots=shots, held_out_shots=held_out, seed=0, planner="offline")

    @property
    def state(self):
        return self.journal.state

    def shot(self, z=1.0, gain=0.1, usable=True, role=EXPLORE, seconds=0.0, simulated=0, error=math.nan):
        shot_id = self.journal.next_shot_id()
        expected = {
            "ball_ids": [0],
            "rest_m": [[0.0, 0.0]],
            "covariance_m2": [[1e-4, 0.0, 1e-4]],
            "pocket_probability": [0.0],
            "traits": {"roll": 1.0},
        }
        self.journal.write(
            "decision",
            what="shot",
            shot=asdict(Shot(shot_id, 0.5, 0.0)),
            role=role,
            slot=0,
            rank=0,
            revision=self.state.revision,
            expected=expected,
            gain_nat=gain,
            numbers={"simulated": simulated, "goal_error": error},
        )
        self.clock.now += seconds
        self.journal.write(
            "outcome",
            what="shot",
            status="observed",
            message="",
            struck=True,
            usable=usable,
            rest_error_m=0.01,
            flags=[] if usable else ["ball_lost"],
            residual={"z2": {"0": 2 * z}, "pocket": {"0": [0.0, False]}} if usable else None,
        )
        return shot_id

    def fit(self, promoted=True, terms=(), parameters=(), seconds=0.0, evaluations=0):
        ids = list(self.state.to_fit)
        self.journal.write(
            "decision", what="fit", shot_ids=ids, seed=1, final=False, terms=list(terms), evaluations=evaluations
        )
        self.clock.now += seconds
        revision = len(self.state.in_use) + 10 * (not promoted)
        self.journal.write(
            "outcome",
            what="fit",
            code=0,
            message="",
            promoted=promoted,
            revision=revision,
            parameters=list(parameters),
        )

    def judge(self, config=CONFIG, **facts):
        found = judge(self.state, Facts(plan(self.state, config), **facts), config)
        self.journal.write("decision", what="judgement", **found.to_dict())
        return found

    def step(self, config=CONFIG):
        return next_step(self.state, config)


def fitted(shots=4):
    story = Story()
    for _ in range(shots):
        story.shot()
    story.fit()
    story.judge()
    return story


def test_first_fit_waits_for_enough_usable_shots():
    story = Story()
    for usable in (True, False, True):
        story.shot(usable=usable)
        assert isinstance(story.step(), Judge)
        assert story.judge().action is Action.SHOOT and isinstance(story.step(), Choose)
    story.shot()
    assert story.judge().action is Action.FIT
    step = story.step()
    assert isinstance(step, Fit) and step.shot_ids == ("s001", "s003", "s004") and not step.final


@pytest.mark.parametrize(
    "shots, why",
    [
        ([{"z": 6.0, "gain": 0.1}], "stated deviations off"),
        ([{"gain": 0.8}], "should have taught 0.80 nat"),
        ([{"gain": 0.1}, {"gain": math.nan}], "2 shots since the last fit"),
    ],
)
def test_refit_now_or_later(shots, why):
    story = fitted()
    for last, values in enumerate(shots, start=1):
        story.shot(**values)
        found = story.judge()
        if last < len(shots):
            assert found.action is Action.SHOOT and "put off" in found.reason
    assert found.action is Action.FIT and why in found.reason


def test_perception_is_refined_once_when_shots_cannot_be_used():
    story = Story()
    story.shot()
    assert story.judge().action is Action.SHOOT
    story.shot(usable=False)
    story.judge()
    story.shot(usable=False)
    found = story.judge()
    assert found.action is Action.PERCEIVE and found.numbers["unusable"] == ["s002", "s003"]
    assert isinstance(story.step(), RefinePerception)
    story.journal.write("outcome", what="refine_perception", message="")
    assert isinstance(story.step(), Judge) and story.judge().action is Action.SHOOT
    blurred = Story()
    blurred.shot()
    assert blurred.judge(place_stddev=0.004).action is Action.PERCEIVE


def test_a_shot_that_no_fit_explains_is_dropped_but_not_many():
    story = Story()
    for _ in range(6):
        story.shot()
    story.fit()
    errors = dict.fromkeys(story.state.to_fit, 0.004)
    story.state.attempts[4].scatter = 0.1  # the fifth shot's outcome is luck: nothing to explain
    errors["s005"] = 0.25
    found = story.judge(fitted={**errors, "s003": 0.2, "s004": 0.1})
    assert found.action is Action.DROP and found.shot_id == "s003"
    assert isinstance(story.step(), Judge), "what follows from it is judged at once"
    found = story.judge(fitted={**errors, "s003": 0.2, "s004": 0.1})
    assert found.action is Action.FIT and "dropped" in found.reason, "one of six may go, not two"
    assert story.step().shot_ids == ("s001", "s002", "s004", "s005", "s006")


def test_s03_an_estimate_that_predicts_worse_than_the_one_before_is_rolled_back():
    story = fitted()
    story.shot()
    story.fit()
    assert story.state.in_use == [0, 1, 2]
    story.shot()
    one = {"s006": (0.05, 0.01)}
    assert story.judge(rivals=one).action is not Action.ROLL_BACK, "one shot may be chance"
    story.shot()
    found = story.judge(rivals={**one, "s007": (0.04, 0.01)})
    assert found.action is Action.ROLL_BACK and found.revision == 1 and "4" in found.reason
    assert story.step() == RollBack(1)
    story.journal.write("outcome", what="roll_back", revision=3, of=1, code=0, message="")
    assert story.state.revision == 3
    assert story.judge(rivals={}).action is Action.FIT, "the shots since are still to be fitted"


def test_terms_are_tried_when_there_are_shots_to_choose_by_and_taken_away_where_they_do_not_pay():
    config = replace(CONFIG, terms_from=6)
    story = fitted(5)
    story.shot()
    assert story.judge(config).action is Action.ENLARGE
    assert story.step(config).terms == ("auto",)
    story.fit(terms=("auto",), parameters=("rolling_friction", "tilt_x"))
    story.judge(config)
    story.shot(z=9.0)
    assert story.judge(config, rivals={"s007": (0.01, 0.02)}).action is Action.FIT, "no new evidence yet"
    assert story.step(config).parameters == ("rolling_friction", "tilt_x")
    story.shot()
    found = story.judge(config, rivals={"s007": (0.021, 0.02), "s008": (0.02, 0.019)})
    assert found.action is Action.SHRINK and story.step(config).parameters == () == story.step(config).terms


@pytest.mark.parametrize(("z", "shots"), [(1.0, 9), (9.0, 8)])
def test_terms_are_tried_again_with_half_as_many_more_shots_or_after_surprises(z, shots):
    config = replace(CONFIG, terms_from=6, terms_shots=2)
    story = fitted(6)
    story.fit(terms=("auto",))
    story.judge(config)
    actions = []
    while len(story.state.to_fit) < shots:
        story.shot(z=z)
        actions.append(story.judge(config))
        story.fit()
        story.judge(config)
    assert [a.action is Action.ENLARGE for a in actions] == [False] * (shots - 7) + [True]
    assert (max(actions[-1].numbers["levels"]) > 4) == (z > 4)


def test_a_shot_that_teaches_nothing_judges_fits():
    config, story = replace(CONFIG, terms_from=6), fitted(7)
    story.fit(terms=("auto",))
    story.judge(config)
    shot_id = story.shot(gain=0.001)
    assert story.judge(config).action is Action.HOLD_OUT and isinstance(story.step(config), Judge)
    assert shot_id not in story.state.to_fit and story.state.held_back == [shot_id]
    assert story.judge(config).action is Action.SHOOT


def test_enough_needs_agreement_and_nothing_to_gain():
    story = fitted()
    best = {"gain": 0.05, "goal_error": 0.002}
    assert enough(story.state, best, CONFIG) is None, "nothing was predicted by a fitted twin yet"
    story.shot()
    story.shot()
    found = enough(story.state, best, CONFIG)
    assert found.action is Action.VALIDATE and found.reason == "agreement"
    assert found.numbers["saved_m"] == pytest.approx(0.002 * (1 - math.exp(-0.05)), abs=1e-5)
    assert enough(story.state, {"gain": 0.5, "goal_error": 0.002}, CONFIG) is None, "another shot would pay"
    assert enough(story.state, {}, CONFIG) is None, "a planner without a goal plays on"
    story.shot(z=5.0)
    assert enough(story.state, best, CONFIG) is None, "the newest shots disagree"


def test_gains_are_believed_as_far_as_they_came_true():
    story = fitted()
    assert story.state.trust == 1.0
    for error in (0.030, 0.028, 0.025):
        story.shot(gain=1.0, error=error)
        story.fit()
    # Two shots of 1 nat each, and the error fell by a sixth.
    assert story.state.trust == pytest.approx((1 + math.log(0.030 / 0.025)) / (1 + 2), rel=1e-6)
    story.judge()
    story.shot(gain=1.0, error=0.025)
    found = story.judge()
    assert found.action is Action.SHOOT and "put off" in found.reason, "0.4 of a promised nat calls for no fit yet"


def test_budgets_are_shared_out():
    config = replace(CONFIG, wall_budget=400.0, fit_every=2)
    story = Story()
    assert plan(story.state, config).explore_left == 14, "nothing is known of the times yet"
    for _ in range(3):
        story.shot(seconds=20.0)
    story.fit(seconds=10.0)
    shares = plan(story.state, config)
    # 330 s left; five held-out shots and the last fit need 110; each further shot 20 and half a fit.
    assert shares.explore_left == 8 and shares.limited_by == "wall time" and shares.wall_left == pytest.approx(330)
    assert shares.seconds_left == pytest.approx((8 + 5) * 20 + 5 * 10)
    while plan(story.state, config).explore_left:
        story.shot(seconds=20.0)
    found = story.judge(config)
    assert found.action is Action.VALIDATE and found.reason == "wall time"
    assert story.step().final, "what was played is fitted all the same"


def test_compute_is_shared_out_over_fits_and_decisions():
    config = replace(CONFIG, compute_budget=100_000)
    story = Story()
    for _ in range(3):
        story.shot(simulated=2000)
    assert spent_compute(story.state, config) == 6000
    shares = plan(story.state, config)
    assert shares.limited_by == "shots" and shares.explore_left == 11
    # 94 000 left, 16 decisions of 2000; six fits and a last one that counts twice share 62 000.
    assert shares.evaluations == 62_000 // 8 and shares.last_evaluations == 2 * shares.evaluations
    story.fit(evaluations=shares.evaluations)
    tight = plan(story.state, replace(config, compute_budget=30_000))
    assert tight.limited_by == "compute" and tight.explore_left < 11 and tight.last_evaluations >= 2000


def test_held_out_shots_are_judged_too():
    story = fitted()
    while not story.state.explored_enough:
        story.shot()
        if story.judge().action is Action.FIT:
            story.fit()
            story.judge()
    story.fit()
    for number in range(6):
        found = story.judge()
        assert found.action is Action.SHOOT and story.step().role == HELD_OUT, number
        story.shot(role=HELD_OUT)
    assert story.judge().action is Action.STOP and story.step().reason == "budget"


def test_shares_of_traits():
    peers = FakePeers()
    shot = Shot("a", 0.9, 0.2)
    (foreseen,) = peers.look_ahead([shot], peers.balls)
    found = Expectation.of(foreseen, peers.table, 0.9, peers.balls)
    assert set(found.shares) == set(TRAITS) and all(0 <= v <= 1 for v in found.shares.values())
    assert sum(found.shares[r] for r in REGIONS) == pytest.approx(found.shares["roll"])
    assert found.shares["slow"] + found.shares["fast"] == pytest.approx(found.shares["roll"])
    again = Expectation.from_dict(found.to_dict())
    assert np.allclose(again.covariance, found.covariance, rtol=1e-3, atol=1e-12)
    assert np.allclose(again.rest, found.rest, atol=1e-6)


def test_residuals_of_what_was_stated():
    peers = FakePeers()
    shot = Shot("a", 0.9, 0.2)
    (foreseen,) = peers.look_ahead([shot], peers.balls)
    stated = Expectation.of(foreseen, small_table(), 0.9, peers.balls)
    peers.strike(shot, False)
    record = peers.records["a"]
    found = residual(record, stated, 0.002)
    moved = {t.ball_id for t in record.tracks}
    assert set(found.z2) >= moved and 3 not in found.z2, "a ball that lies still says nothing"
    ball = min(moved)
    off = next(b.position for b in record.after if b.ball_id == ball) - stated.rest[stated.ball_ids.index(ball)]
    spread = stated.covariance[stated.ball_ids.index(ball)] + 4e-6 * np.eye(2)
    assert found.z2[ball] == pytest.approx(min(off @ np.linalg.solve(spread, off), WORST))
    gone = replace(record, after=tuple(replace(b, visibility=Visibility.POCKETED) for b in record.after))
    assert set(residual(gone, stated, 0.002).z2.values()) == {WORST}, "pocketed although this was stated to be rare"


def test_honest_statements_are_no_surprise_and_wrong_ones_are():
    rng = np.random.default_rng(3)

    def drawn(scale, count=40):
        z2 = scale**2 * rng.chisquare(2, count)
        return [
            Residual(f"s{i}", {"roll": 1.0, "slow": 0.5}, {0: float(z)}, {0: (0.2, i % 5 == 0)})
            for i, z in enumerate(z2)
        ]

    honest, wrong = Surprise(drawn(1.0)), Surprise(drawn(3.0))
    assert 0.6 < honest.level("roll") < 1.5 and wrong.level("roll") > 4
    assert honest.level("cushion") == 1.0 and honest.count("cushion") == 0.0
    assert honest.count("slow") == pytest.approx(20)
    assert coverage95(honest.residuals) > 0.85 > coverage95(wrong.residuals)
    assert likely(honest.residuals[-8:]) and not likely(wrong.residuals[-8:]) and not likely([])
    assert brier(honest.residuals) == pytest.approx(0.16)
    assert dispersion(honest.residuals) < 1.7 and 2.5 < dispersion(wrong.residuals) <= 9 and dispersion([]) == 1.0
    assert replace(wrong.residuals[0], widened=4.0).level == pytest.approx(4 * wrong.residuals[0].level)
    mended = Surprise([*wrong.residuals, *honest.residuals])
    assert mended.level("roll") < wrong.level("roll") / 2, "what later fits mended is forgotten"
