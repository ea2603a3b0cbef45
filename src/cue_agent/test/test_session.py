"""Whole sessions against the fake table: budget, resume after a kill at every point, and each way to end."""

import json
from dataclasses import replace

import numpy as np
import pytest

from cue_agent.config import AgentConfig
from cue_agent.journal import EXPLORE, HELD_OUT, Journal
from cue_agent.peers import (
    NOMINAL,
    ArmResult,
    Code,
    FitResult,
    SessionEndedError,
    StrikeStatus,
    TwinError,
    classify,
)
from cue_agent.planners import make_planner
from cue_agent.reach import GeometricReach
from cue_agent.session import Goal, Session
from cue_agent.testing import FakePeers, MisledPeers, some_balls
from cue_core.arm_codes import ArmCode
from cue_core.balls import Visibility
from cue_core.shot_log import read_lines
from cue_core.shots import Stroke

SMALL = {"candidates": 8, "shortlist": 3, "drawn": 4, "finalists": 0, "goal_shots": 2}


class Killed(BaseException):
    """Stands for kill -9: nothing in the session may handle it."""


def make(run_dir, peers, **settings):
    config = AgentConfig(run_dir=str(run_dir), **{**SMALL, **settings})
    return Session(config, peers, make_planner(config.planner), Journal(run_dir), GeometricReach)


def run(run_dir, peers, goal=None, **settings):
    return make(run_dir, peers, **settings).run(goal or Goal("explain this table"))


def events(run_dir, event, what=None):
    return [e for e in read_lines(run_dir / "agent.jsonl") if e["event"] == event and what in (None, e.get("what"))]


def played(peers):
    return [(s.shot_id, s.speed, s.azimuth) for s in peers.struck]


@pytest.mark.parametrize("planner", ["offline", "random", "script"])
def test_whole_session(tmp_path, planner):
    peers = FakePeers()
    result = run(tmp_path, peers, planner=planner, worth=0.0)
    assert result.code == Code.NONE, result.message
    assert result.shots_used == len(peers.struck) == 12
    assert len({s.shot_id for s in peers.struck}) == 12
    sizes = [len(f.shot_ids) for f in peers.fits]
    assert sizes[0] == 3 and sizes[-1] == 6 and sizes == sorted(set(sizes)), sizes
    assert result.revision == len(sizes)
    assert result.calibrated_rest_error < 0.1 * result.unfitted_rest_error
    assert result.calibrated_along_track_error < 0.1 * result.unfitted_along_track_error
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["held_out"]["shots"] == 6 and len(summary["held_out"]["per_shot"]) == 6
    assert summary["held_out"]["calibrated"]["rest_error_m"] == pytest.approx(result.calibrated_rest_error)
    assert summary["stopped_because"] == "budget" and summary["seed"] == 0
    assert summary["instruction"] == "explain this table"
    assert [r["revision"] for r in summary["held_out"]["by_revision"]] == list(range(1, len(sizes) + 1))
    assert set(summary["phases_s"]) >= {"reconstruct", "fit", "strike", "validate"}
    assert {s.phase for s in peers.statuses} >= {"reconstruct", "fit", "strike", "validate", "stopped"}


def test_no_held_out_shot_is_ever_fitted(tmp_path):
    peers = FakePeers()
    run(tmp_path, peers)
    roles = {e["shot"]["shot_id"]: e["role"] for e in events(tmp_path, "decision", "shot")}
    assert {roles[i] for f in peers.fits for i in f.shot_ids} == {EXPLORE}
    order = [roles[s.shot_id] for s in peers.struck]
    assert order == sorted(order), "held-out shots come after all others"
    held_out = [i for i, role in roles.items() if role == HELD_OUT]
    touched = [i for i in held_out if len(peers.records[i].tracks) > 1 or _bounced(peers.records[i], peers.table)]
    assert 2 * len(touched) >= len(held_out)


def _bounced(record, table):
    half = np.array([table.length / 2, table.width / 2]) - table.ball_stop
    return any(np.any(np.abs(t.position) > half - 0.02) for t in record.tracks)


def test_same_seed_same_session_and_another_seed_another(tmp_path):
    peers = [FakePeers() for _ in range(3)]
    for i, seed in enumerate((1, 1, 2)):
        (tmp_path / str(i)).mkdir()
        run(tmp_path / str(i), peers[i], seed=seed)
    assert played(peers[0]) == played(peers[1])
    assert played(peers[0]) != played(peers[2])


def test_every_decision_is_written_before_it_is_acted_on(tmp_path):
    peers = FakePeers()
    seen = []

    def hook(call):
        if call in ("strike", "fit"):
            seen.append((call, read_lines(tmp_path / "agent.jsonl")[-1]["event"] in ("decision", "phase")))

    peers.hook = hook
    run(tmp_path, peers)
    assert seen and all(written for _, written in seen)
    first = events(tmp_path, "decision", "shot")[0]
    assert {"shot", "options", "numbers", "reason", "revision"} <= set(first)
    assert {"utility", "pocket_cue", "pocket_any", "stuck", "gain"} <= set(first["options"][0])


def _count(tmp_path, settings):
    peers, count = FakePeers(), [0]

    def hook(_call):
        count[0] += 1

    peers.hook = hook
    folder = tmp_path / "whole"
    folder.mkdir()
    run(folder, peers, **settings)
    return peers, count[0]


def test_l08_kill_at_every_call_and_resume(tmp_path):
    settings = {"shots": 5, "held_out_shots": 1, "probes": 1, "first_fit": 2, "worth": 0.0}
    whole, calls = _count(tmp_path, settings)
    assert len(whole.struck) == 5
    for kill_at in range(1, calls + 1, 17):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        peers, count = FakePeers(), [0]

        def hook(_call, count=count, kill_at=kill_at):
            count[0] += 1
            if count[0] == kill_at:
                raise Killed

        peers.hook = hook
        with pytest.raises(Killed):
            run(folder, peers, **settings)
        result = run(folder, peers, Goal("sent again", 5, 1), **settings)
        assert result.code == Code.NONE, f"killed at call {kill_at}: {result.message}"
        assert played(peers) == played(whole), f"killed at call {kill_at}"
        assert result.shots_used == 5 and result.revision == 2
        assert len(events(folder, "session")) == 1


def test_l08_kill_after_every_line_of_the_journal(tmp_path, monkeypatch):
    settings = {"shots": 3, "held_out_shots": 1, "probes": 1, "first_fit": 1, "worth": 0.0}
    whole, _ = _count(tmp_path, settings)
    lines = len(read_lines(tmp_path / "whole" / "agent.jsonl"))
    write = Journal.write
    for kill_at in range(1, lines + 1):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        count = [0]

        def killing(self, event, count=count, kill_at=kill_at, **values):
            write(self, event, **values)
            count[0] += 1
            if count[0] == kill_at:
                raise Killed

        peers = FakePeers()
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "write", killing)
            with pytest.raises(Killed):
                run(folder, peers, **settings)
        with open(folder / "agent.jsonl", "a") as file:
            file.write('{"event":"outco')  # a torn line is no line
        result = run(folder, peers, **settings)
        assert result.code == Code.NONE, f"killed after line {kill_at}: {result.message}"
        assert played(peers) == played(whole), f"killed after line {kill_at}"


def test_l08_kill_after_each_kind_of_decision(tmp_path, monkeypatch):
    """Perception is refined, a shot held out, terms are added and an estimate is rolled back, killed or not."""
    settings = {"shots": 9, "held_out_shots": 1, "first_fit": 2, "worth": 0.0, "min_held_out": 1}
    settings |= {"max_place_stddev": 1e-6, "hold_gain": 99.0, "max_held_back": 1, "terms_from": 3, "terms_level": 1.0}
    write, whole, folder = Journal.write, MisledPeers(), tmp_path / "whole"
    folder.mkdir()
    run(folder, whole, **settings)
    kinds = {}
    for number, line in enumerate(read_lines(folder / "agent.jsonl"), start=1):
        kinds.setdefault((line["event"], line.get("what"), line.get("action")), number)
    told = {action for _, what, action in kinds if what == "judgement"}
    assert told >= {"shoot", "fit", "enlarge", "refine_perception", "hold_out", "roll_back", "validate", "stop"}, told
    assert whole.refined == 1 and whole.rolled_back and any(f.terms for f in whole.fits)
    rare = {"roll_back", "refine_perception", "enlarge", "hold_out"}  # the others: see the test before
    watched = [n for (_, what, action), n in kinds.items() if {what, action} & rare]
    for kill_at in watched:
        folder, count, peers = tmp_path / str(kill_at), [0], MisledPeers()
        folder.mkdir()

        def killing(self, event, count=count, kill_at=kill_at, **values):
            write(self, event, **values)
            count[0] += 1
            if count[0] == kill_at:
                raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(Journal, "write", killing)
            with pytest.raises(Killed):
                run(folder, peers, **settings)
        result = run(folder, peers, **settings)
        assert result.code == Code.NONE and played(peers) == played(whole), f"killed after line {kill_at}"
        assert peers.rolled_back == whole.rolled_back and peers.refined == 1
        assert [f.shot_ids for f in peers.fits] == [f.shot_ids for f in whole.fits]


def test_finished_but_undelivered_result_is_handed_over_without_a_stroke(tmp_path):
    peers = FakePeers()
    first = run(tmp_path, peers)
    session = make(tmp_path, peers)
    assert session.run(Goal("again")) == replace(first)
    assert len(peers.struck) == first.shots_used
    session.delivered()
    balls, peers.balls = peers.balls, some_balls()
    assert balls is not None
    second = run(tmp_path, peers)
    assert second.code == Code.NONE
    ids = [s.shot_id for s in peers.struck]
    assert len(ids) == len(set(ids)) == first.shots_used + second.shots_used
    assert len(events(tmp_path, "session")) == 2


def test_stops_early_when_shots_are_explained(tmp_path):
    peers = FakePeers()
    result = run(tmp_path, peers, worth=1.0)
    assert result.code == Code.NONE and result.shots_used < 12
    assert json.loads((tmp_path / "summary.json").read_text())["stopped_because"] == "agreement"
    last = [e for e in events(tmp_path, "decision", "judgement") if e["action"] == "validate"][-1]
    assert last["numbers"]["saved_m"] < last["numbers"]["worth_m"] == 1.0


def refuse(code, struck=False, times=1):
    return [lambda _shot: ArmResult(code, f"told {code.name}", struck)] * times


@pytest.mark.parametrize("code", [ArmCode.UNREACHABLE, ArmCode.COLLISION, ArmCode.NO_BALL, ArmCode.INVALID_SHOT])
def test_refused_shot_is_followed_by_the_next_option(tmp_path, code):
    peers = FakePeers(faults={"strike": refuse(code, times=2)})
    result = run(tmp_path, peers, worth=0.0)
    assert result.code == Code.NONE and result.shots_used == 12
    first, second, third = events(tmp_path, "decision", "shot")[:3]
    assert [e["rank"] for e in (first, second, third)] == [0, 1, 2]
    assert first["slot"] == second["slot"] == third["slot"] == 0
    assert len({(e["shot"]["azimuth"], e["shot"]["speed"]) for e in (first, second, third)}) == 3
    assert len({e["shot"]["shot_id"] for e in (first, second, third)}) == 3


def test_refusals_without_end_make_the_table_unplayable(tmp_path):
    peers = FakePeers(faults={"strike": refuse(ArmCode.UNREACHABLE, times=99)})
    result = run(tmp_path, peers)
    assert result.code == Code.UNPLAYABLE and "UNREACHABLE" in result.message
    assert result.shots_used == 0 and not peers.struck


def test_failed_strokes_are_retried_then_stop(tmp_path):
    peers = FakePeers(faults={"strike": refuse(ArmCode.CONTROLLER, times=2)})
    assert run(tmp_path, peers, worth=0.0).code == Code.NONE
    (tmp_path / "2").mkdir()
    peers = FakePeers(faults={"strike": refuse(ArmCode.CONTROLLER, times=3)})
    result = run(tmp_path / "2", peers)
    assert result.code == Code.ARM_FAILED and "CONTROLLER" in result.message and not peers.struck


@pytest.mark.parametrize("struck, code", [(True, ArmCode.CONTROLLER), (False, ArmCode.STOPPED)])
def test_a_person_must_look_after_an_abort_at_contact_or_a_stop(tmp_path, struck, code):
    peers = FakePeers()

    def aborted(shot):
        if struck:
            peers.struck.append(shot)
            peers._happen(shot)
        return ArmResult(code, "protective stop", struck)

    peers.faults["strike"] = [aborted]
    result = run(tmp_path, peers)
    assert result.code == Code.ARM_FAILED and "protective stop" in result.message
    assert result.shots_used == int(struck)
    assert bool(events(tmp_path, "outcome", "shot")[0]["moved"]) == struck  # still recorded from vision


def test_simulated_arm_may_break_off_now_and_then(tmp_path):
    peers = FakePeers()

    def aborted(shot):
        peers.struck.append(shot)
        peers._happen(shot)
        return ArmResult(ArmCode.CONTROLLER, "the controller was restarted", True)

    peers.faults["strike"] = [aborted]
    result = run(tmp_path, peers, max_aborted=2, worth=0.0)
    assert result.code == Code.NONE and result.shots_used == 12 == len(peers.struck)


def test_a05_unseen_stroke_is_not_fitted_and_the_second_stops(tmp_path):
    peers = FakePeers(faults={"record": [lambda _id: None]})
    result = run(tmp_path, peers, worth=0.0)
    assert result.code == Code.NONE and result.shots_used == 12
    assert all("s001" not in f.shot_ids for f in peers.fits)
    (tmp_path / "2").mkdir()
    peers = FakePeers(faults={"record": [lambda _id: None] * 2})
    result = run(tmp_path / "2", peers)
    assert result.code == Code.NOT_OBSERVED and "s001, s002" in result.message and result.shots_used == 2


def test_spoilt_held_out_shot_is_replaced_from_what_was_kept_back(tmp_path):
    peers = FakePeers()

    def spoil(shot_id):
        return replace(peers.records[shot_id], flags=("ball_lost",))

    def fine(shot_id):
        return peers.records[shot_id]

    # Shot 2 explores; of seven held-out shots, 8 and 9 are spoilt.
    peers.faults["record"] = [fine, spoil, *[fine] * 5, spoil, spoil]
    result = run(tmp_path, peers, worth=0.0)
    assert result.code == Code.NONE and result.shots_used == 12
    assert [len(f.shot_ids) for f in peers.fits][-1] == 4
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["held_out"]["shots"] == 5 and summary["held_out"]["played"] == 7


class RaisedOnly(GeometricReach):
    """The cue ball lies where only a raised cue reaches it."""

    def __init__(self, table, barred):
        super().__init__(table)
        self.barred = barred

    def reachable(self, cue_ball, azimuth, speed, balls, elevation=0.0):
        if self.barred() and elevation == 0.0:
            return False, "cue stem would touch north rail"
        return super().reachable(cue_ball, azimuth, speed, balls, elevation)


@pytest.mark.parametrize("after", [2, 7])
def test_raised_escape_is_played_but_neither_fitted_nor_judged(tmp_path, after):
    peers = FakePeers()
    config = AgentConfig(run_dir=str(tmp_path), worth=0.0, **SMALL)

    def make_reach(table):
        return RaisedOnly(table, lambda: len(peers.struck) == after)

    session = Session(config, peers, make_planner("offline"), Journal(tmp_path), make_reach)
    result = session.run(Goal("x"))
    assert result.code == Code.NONE and result.shots_used == 12, result.message
    raised = [s.shot_id for s in peers.struck if s.elevation > 0]
    assert raised == [f"s{after + 1:03d}"]
    assert all(raised[0] not in f.shot_ids for f in peers.fits)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert raised[0] not in [row["shot_id"] for row in summary["held_out"]["per_shot"]]
    assert summary["held_out"]["shots"] >= 5
    assert summary["escape_shots"] == (after == 7)


def test_a05_no_motion_record_counts_as_unseen(tmp_path):
    peers = FakePeers()

    def still(shot_id):
        return replace(peers.records[shot_id], tracks=(), flags=("no_motion",))

    peers.faults["record"] = [still] * 2
    assert run(tmp_path, peers).code == Code.NOT_OBSERVED


def test_fit_failures(tmp_path):
    fails = [lambda _request: FitResult(6, "twin fault", False, None)]
    peers = FakePeers(faults={"fit": list(fails)})
    result = run(tmp_path, peers, worth=0.0)
    assert result.code == Code.NONE and result.revision >= 2  # one failure is survived
    (tmp_path / "2").mkdir()
    result = run(tmp_path / "2", FakePeers(faults={"fit": fails * 9}))
    assert result.code == Code.FIT_FAILED and "twin fault" in result.message and result.shots_used == 6


def test_time_reset(tmp_path):
    result = run(tmp_path, FakePeers(faults={"strike": refuse(ArmCode.TIME_RESET)}))
    assert result.code == Code.TIME_RESET
    (tmp_path / "2").mkdir()
    peers = FakePeers(faults={"fit": [lambda _request: FitResult(8, "clock went back", False, None)]})
    assert run(tmp_path / "2", peers).code == Code.TIME_RESET


def test_stroke_measured_as_nonsense_is_survived(tmp_path):
    peers = FakePeers()

    def strange(shot_id):
        record = peers.records[shot_id]
        return replace(record, achieved=replace(record.achieved, tip_speed=float("nan")))

    peers.faults["record"] = [strange]
    assert run(tmp_path, peers, worth=0.0).code == Code.NONE


def test_no_table(tmp_path):
    def nothing():
        raise SessionEndedError(Code.NO_TABLE, "no table was found within 60 s")

    result = run(tmp_path, FakePeers(faults={"scene": [nothing]}))
    assert result.code == Code.NO_TABLE and result.shots_used == 0


def test_cancel_ends_the_session_for_good(tmp_path):
    peers = FakePeers()

    def hook(call):
        peers.cancelled = peers.cancelled or call == "fit"

    peers.hook = hook
    result = run(tmp_path, peers)
    assert result.code == Code.CANCELED and result.shots_used == 3
    assert json.loads((tmp_path / "summary.json").read_text())["stopped_because"] == "cancelled"


def test_a_cancel_ends_a_choice_between_two_looks_at_the_arm(tmp_path):
    peers, asked = FakePeers(), []

    class Slow(GeometricReach):
        def reachable(self, *arguments, **more):
            asked.append(arguments)
            peers.cancelled = len(asked) >= 5
            return super().reachable(*arguments, **more)

    config = AgentConfig(run_dir=str(tmp_path), **SMALL)
    result = Session(config, peers, make_planner("offline"), Journal(tmp_path), Slow).run(Goal("x"))
    assert result.code == Code.CANCELED and len(asked) == 5 and not peers.struck


@pytest.mark.parametrize("goal", [Goal("", 3, 3), Goal("", 1, 0), Goal("", 4, 9)])
def test_invalid_goal(tmp_path, goal):
    peers = FakePeers()
    result = run(tmp_path, peers, goal)
    assert result.code == Code.INVALID_GOAL and "allowed" in result.message and not peers.struck
    assert not (tmp_path / "agent.jsonl").exists()


def test_cue_ball_gone_ends_with_what_was_learnt(tmp_path):
    peers = FakePeers()

    def hook(call):
        if call == "struck" and len(peers.struck) == 4:
            peers.balls = tuple(
                replace(b, visibility=Visibility.POCKETED) if b.ball_id == 0 else b for b in peers.balls
            )

    peers.hook = hook
    result = run(tmp_path, peers, worth=0.0)
    assert result.code == Code.UNPLAYABLE and result.shots_used == 4
    assert [len(f.shot_ids) for f in peers.fits] == [3, 4] and result.revision == 2


def test_table_without_a_cue_ball_is_unplayable_from_the_start(tmp_path):
    result = run(tmp_path, FakePeers(balls=some_balls()[1:]))
    assert result.code == Code.UNPLAYABLE and "no playable shot" in result.message and result.shots_used == 0


def test_session_that_becomes_unplayable_late_still_counts(tmp_path):
    peers = FakePeers()

    def hook(call):
        if call == "struck" and len(peers.struck) == 10:
            peers.balls = tuple(b for b in peers.balls if b.ball_id != 0)

    peers.hook = hook
    result = run(tmp_path, peers, worth=0.0)
    assert result.code == Code.NONE and result.shots_used == 10
    assert json.loads((tmp_path / "summary.json").read_text())["held_out"]["shots"] == 4


def test_one_bad_candidate_does_not_spoil_the_choice(tmp_path):
    peers = FakePeers()

    def fault(shots):
        peers.faults["predict"] = [fault]  # for ever
        if any(s.shot_id.startswith("candidate-2") for s in shots):
            raise TwinError("not finite")

    peers.faults["predict"] = [fault]
    assert run(tmp_path, peers).code == Code.NONE


def test_only_the_cue_ball(tmp_path):
    peers = FakePeers(balls=some_balls()[:1])
    result = run(tmp_path, peers, worth=0.0)
    assert result.code == Code.NONE and result.shots_used == 12


def test_without_a_run_folder(tmp_path):
    config = AgentConfig(**SMALL)
    session = Session(config, FakePeers(), make_planner("offline"), Journal(""), GeometricReach)
    assert session.run(Goal("")).code == Code.NONE


def test_status_says_the_budget_and_the_error(tmp_path):
    peers = FakePeers()
    run(tmp_path, peers)
    assert all(s.shots_budget == 12 for s in peers.statuses)
    used = [s.shots_used for s in peers.statuses]
    assert used == sorted(used)
    assert np.isfinite(peers.statuses[-1].held_out_error) and peers.statuses[-1].phase == "stopped"


@pytest.mark.parametrize(
    "code, struck, status",
    [
        (ArmCode.NONE, True, StrikeStatus.NOT_OBSERVED),
        (ArmCode.ALREADY_STRUCK, True, StrikeStatus.NOT_OBSERVED),
        (ArmCode.UNREACHABLE, False, StrikeStatus.REFUSED),
        (ArmCode.COLLISION, False, StrikeStatus.REFUSED),
        (ArmCode.CONTROLLER, False, StrikeStatus.FAILED),
        (ArmCode.CONTROLLER, True, StrikeStatus.ABORTED),
        (ArmCode.TIMEOUT, False, StrikeStatus.FAILED),
        (ArmCode.PREEMPTED, False, StrikeStatus.FAILED),
        (ArmCode.STOPPED, False, StrikeStatus.HALTED),
        (ArmCode.ENVELOPE, False, StrikeStatus.REFUSED),
        (ArmCode.TOLERANCE, False, StrikeStatus.FAILED),
        (ArmCode.TOLERANCE, True, StrikeStatus.ABORTED),
        (ArmCode.PROTECTIVE_STOP, False, StrikeStatus.HALTED),
        (ArmCode.CANCELED, False, StrikeStatus.CANCELED),
        (ArmCode.TIME_RESET, False, StrikeStatus.TIME_RESET),
    ],
)
def test_classify(code, struck, status):
    assert classify(ArmResult(code, "", struck, Stroke(0.5, 0.0)), None) is status


def test_nominal_revision_is_zero():
    assert NOMINAL == 0
