"""Carries a session out: takes the next step, writes it down, does it, writes down what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cue_agent.budgets import plan
from cue_agent.config import AgentConfig
from cue_agent.evidence import Evidence
from cue_agent.journal import ESCAPE, EXPLORE, HELD_OUT, Attempt, Journal, Judgement, SessionState
from cue_agent.judgement import enough, judge
from cue_agent.peers import (
    FIT_TIME_RESET,
    NOMINAL,
    ArmResult,
    Code,
    FitRequest,
    Peers,
    SessionEndedError,
    Status,
    StrikeStatus,
    TwinError,
    classify,
)
from cue_agent.planners import TURNS, Choice, Context, Option, Planner, choose_held_out, judges
from cue_agent.reach import MakeReach, Reach
from cue_agent.scores import score_to_dict
from cue_agent.steps import Choose, Fit, Judge, RefinePerception, RollBack, Step, Stop, Strike, next_step
from cue_agent.summary import Judged, SessionResult, build_summary, summary_lines, write_json
from cue_agent.surprise import Expectation, residual
from cue_agent.watched import WatchedReach
from cue_core.arm_codes import ArmCode
from cue_core.parameters import PARAMETERS, ParameterEstimate
from cue_core.shot_log import ShotLog
from cue_core.shots import Shot, ShotRecord
from cue_core.table import TableModel
from cue_identify.scoring import ShotScore

_TOLD_OPTIONS = 5
_ROLES = {EXPLORE: 0, HELD_OUT: 1}
_FIT_STREAM = 2  # beside the streams of _ROLES


@dataclass(frozen=True)
class Goal:
    """What was asked for; 0 = the configured default."""

    instruction: str = ""
    shots: int = 0
    held_out_shots: int = 0


class Pilot(Protocol):
    """Explores in place of the session's own rules, through its public methods."""

    def wanted(self, state: SessionState) -> bool:
        """Tell whether it has still a say."""

    def refuses(self, session: Session, shot: Shot, text: str) -> str:
        """Return why a person does not want a stroke of the session's own rules, empty = they do not mind."""

    def explore(self, session: Session) -> None:
        """Explore until no more is to be explored, else call :meth:`Session.hand_over`."""


class Session:
    """One calibration session, resumed from its journal where that holds an unfinished one."""

    def __init__(
        self,
        config: AgentConfig,
        peers: Peers,
        planner: Planner,
        journal: Journal,
        make_reach: MakeReach,
        log: Callable[[str], None] = lambda _text: None,
        pilot: Pilot | None = None,
    ) -> None:
        """Name what the session works with; ``log`` takes lines for people, ``pilot`` explores before ``planner``."""
        self._config, self._peers, self._planner, self._pilot = config, peers, planner, pilot
        self._journal, self._make_reach, self._log = journal, make_reach, log
        self._evidence = Evidence(peers, config, log)
        self._choices: tuple[tuple[str, int, int], list[Choice]] | None = None
        self._reach: tuple[TableModel, Reach] | None = None
        self._phase = ""
        self.estimates: dict[int, ParameterEstimate] = {}
        """Of the fits that this process has seen, by revision."""

    @property
    def state(self) -> SessionState:
        """Return what the journal tells."""
        return self._state

    @property
    def config(self) -> AgentConfig:
        """Return the limits and budgets."""
        return self._config

    @property
    def peers(self) -> Peers:
        """Return the other nodes."""
        return self._peers

    @property
    def evidence(self) -> Evidence:
        """Return what the records say."""
        return self._evidence

    @property
    def run_dir(self) -> str:
        """Return the run folder, empty = none."""
        return self._journal.run_dir

    @property
    def phase(self) -> str:
        """Return the present phase, empty before the first."""
        return self._phase

    def log(self, text: str) -> None:
        """Write a line for people."""
        self._log(text)

    @property
    def _state(self) -> SessionState:
        if self._journal.state is None:
            raise SessionEndedError(Code.INVALID_GOAL, "no session was begun")
        return self._journal.state

    def run(self, goal: Goal) -> SessionResult:
        """Play the session to its end and return its result; never raises for what peers or the table do."""
        try:
            self._open(goal)
        except SessionEndedError as error:
            return SessionResult(error.code, str(error), run_directory=self._journal.run_dir)
        state = self._state
        if state.result is not None:  # it ended, but nobody was told
            return SessionResult.from_dict(state.result)
        try:
            if state.stopped is None and not state.attempts:  # else a stroke may still be under way
                self.enter("reconstruct", "looking for the table and the balls")
                self._peers.scene()
            self._evidence.remember(state)
            while True:
                self._peers.check()
                step = next_step(state, self._config)
                if isinstance(step, Stop):
                    break
                if self._pilot is not None and self._explores(step) and self._pilot.wanted(state):
                    self._explore_with(self._pilot)
                else:
                    self.carry_out(step)
            judged = self._judged() if step.code == Code.NONE else Judged()
        except SessionEndedError as error:
            step, judged = Stop(error.code, str(error)), Judged()
        return self._close(step, judged)

    def _explores(self, step: Step) -> bool:
        """Tell whether a step is for whoever explores to take."""
        if self._state.explored_enough or self._state.unplayable:
            return False
        if isinstance(step, Choose):
            return step.role == EXPLORE and step.rank < self._config.max_refusals
        return isinstance(step, Judge)

    def _explore_with(self, pilot: Pilot) -> None:
        state = self._state
        self.enter("choose", "the model explores")
        pilot.explore(self)
        if self._explores(next_step(state, self._config)) and not state.taken_over:
            self.hand_over("the model stopped")

    def hand_over(self, reason: str) -> None:
        """Let the session's own rules and planner go on to explore, for the rest of the session."""
        self._journal.write("note", what="taken_over", reason=reason)
        self._tell(f"the offline planner takes over: {reason}")

    def delivered(self) -> None:
        """Note that the result was handed over, so that the next goal begins a new session."""
        if self._journal.unfinished and self._state.result is not None:
            self._journal.write("delivered")

    def _open(self, goal: Goal) -> None:
        if self._journal.unfinished:
            self._log("resuming the unfinished session of this run folder; its own budget holds")
            return
        shots = goal.shots or self._config.shots
        held_out = goal.held_out_shots or min(self._config.held_out_shots, max(shots - 1, 1))
        if not 1 <= held_out < shots:
            raise SessionEndedError(
                Code.INVALID_GOAL, f"held_out_shots is {held_out}, allowed is 1 to {shots - 1} for {shots} shots"
            )
        taken = []
        if self._journal.run_dir:
            taken = [r.shot_id for r in ShotLog(Path(self._journal.run_dir, "shots.jsonl")).read()]
        self._journal.begin(
            taken,
            instruction=goal.instruction,
            shots=shots,
            held_out_shots=held_out,
            seed=self._config.seed,
            planner=self._planner.name,
        )

    def enter(self, phase: str, text: str) -> None:
        """Begin a phase, unless it is the present one, and tell what is being done."""
        if phase != self._phase:
            self._journal.write("phase", phase=phase)
            self._phase = phase
        self._tell(text)

    def _tell(self, text: str, keep: bool = True) -> None:
        state = self._state
        used = state.used()
        error = next((a.rest_error for a in reversed(used) if a.rest_error == a.rest_error), float("nan"))
        decision = json.dumps(state.judgements[-1].to_dict()) if state.judgements else ""
        self._peers.report(Status(self._phase, text, len(used), state.shots, state.revision, error, decision))
        if keep:
            self._log(f"{self._phase}: {text}")

    def carry_out(self, step: Step) -> None:
        """Take a step: write it down, do it, write down what came of it."""
        if isinstance(step, Choose):
            self._choose(step)
        elif isinstance(step, Strike):
            self._strike(step.attempt, resumed=True)
        elif isinstance(step, Fit):
            self._fit(step)
        elif isinstance(step, Judge):
            self.decide(judge(self._state, self._evidence.facts(self._state), self._config))
        elif isinstance(step, RollBack):
            self._roll_back(step.revision)
        elif isinstance(step, RefinePerception):
            self._refine_perception()

    def decide(self, judgement: Judgement) -> None:
        """Write a judgement down and tell it; what it asks for is the next step."""
        self._journal.write("decision", what="judgement", **judgement.to_dict())
        self._tell(f"decided: {judgement.action.value.replace('_', ' ')}, {judgement.reason}")

    def _roll_back(self, revision: int) -> None:
        self.enter("fit", f"returning to revision {revision}")
        result = self._peers.roll_back(revision)
        if result.estimate is not None:
            self.estimates[result.estimate.revision] = result.estimate
        new = result.estimate.revision if result.estimate is not None else self._state.revision
        self._journal.write(
            "outcome", what="roll_back", code=result.code, message=result.message, revision=new, of=revision
        )
        self._tell(result.message or f"revision {revision} is in use again, as revision {new}")

    def _refine_perception(self) -> None:
        self.enter("reconstruct", "having the table and the balls looked for anew")
        problem = self._peers.refine_perception()
        if not problem:
            self._peers.scene()  # waits until they are found
        self._journal.write("outcome", what="refine_perception", message=problem)
        self._tell(problem or "table and balls were looked for anew")

    def _choose(self, step: Choose) -> None:
        state = self._state
        probing = step.role == EXPLORE and step.slot < self._config.probes
        phase = "validate" if step.role == HELD_OUT else ("probe" if probing else "choose")
        self.enter(phase, f"choosing shot {len(state.used()) + 1} of {state.shots}")
        option, choice = self._option(step)
        if option is None:
            reason = "no playable shot is left"
            if step.rank:
                reason += f" (the arm refused {step.rank} of them, the last with: {state.attempts[-1].message})"
            numbers = [c.numbers for c in self._choices[1]] if self._choices is not None else []
            self._journal.write(
                "decision", what="unplayable", role=step.role, slot=step.slot, reason=reason, numbers=numbers
            )
            self._log(f"{reason}: {numbers}")
            return
        if step.role == EXPLORE and step.rank == 0:
            stop = enough(state, choice.numbers, self._config)
            if stop is not None:
                self.decide(stop)
                return
        if self._pilot is not None:
            shot = option.candidate.shot(self._journal.next_shot_id())
            why = self._pilot.refuses(self, shot, option.reason)
            if why:
                raise SessionEndedError(Code.CANCELED, f"shot {shot.shot_id} was not approved: {why}")
        self.play(option, step.role, step.slot, step.rank, choice)

    def play(self, option: Option, role: str, slot: int, rank: int, choice: Choice) -> None:
        """Write down that a shot was decided on, have it struck, and write down what came of it.

        Args:
            option: to be played.
            role: :data:`EXPLORE` or :data:`HELD_OUT`.
            slot: of the choice, see :class:`cue_agent.steps.Choose`.
            rank: likewise.
            choice: that the option belongs to.
        """
        state = self._state
        shot = option.candidate.shot(self._journal.next_shot_id())
        role = role if role == EXPLORE or judges(option.candidate) else ESCAPE
        expected = self._expectation(shot, option)
        self._journal.write(
            "decision",
            what="shot",
            shot=asdict(shot),
            expected=None if expected is None else expected.to_dict(),
            scatter_m=option.value.scatter,
            gain_nat=option.value.gain if "gain" in choice.numbers else float("nan"),  # else chosen without a goal
            role=role,
            slot=slot,
            rank=rank,
            revision=state.revision,
            reason=option.reason,
            options=[o.to_dict() for o in choice.options[:_TOLD_OPTIONS]],
            numbers=choice.numbers,
        )
        self._show(shot)
        self._log(f"shot {shot.shot_id}: {shot.speed:.2f} m/s, {shot.azimuth:.3f} rad; {option.reason}")
        self._strike(state.attempts[-1], resumed=False)

    def _option(self, step: Choose) -> tuple[Option | None, Choice]:
        """Return the option whose turn it is and the choice it belongs to; None when nothing playable is found.

        Options are worked out once, however many of them the arm refuses. When all are refused, or none is within the
        limits, others are drawn, a few times.
        """
        state = self._state
        key = (step.role, step.slot, state.revision)
        if self._choices is None or self._choices[0] != key:
            self._choices = key, []
        choices, before = self._choices[1], 0
        for turn in range(TURNS if step.rank < self._config.max_refusals else 0):
            if turn == len(choices):
                choices.append(self._draw(step, turn))
            if step.rank - before < len(choices[turn].options):
                return choices[turn].options[step.rank - before], choices[turn]
            before += len(choices[turn].options)
        return None, Choice(())

    def _draw(self, step: Choose, turn: int) -> Choice:
        context = self.context(step.role, step.slot, turn)
        if context is None:
            return Choice(())
        return choose_held_out(context) if step.role == HELD_OUT else self._planner.choose(context)

    def context(self, role: str, slot: int, turn: int) -> Context | None:
        """Return what a planner is told, None when the cue ball is gone; see :meth:`play` for the arguments."""
        state, scene = self._state, self._peers.scene()
        if scene.cue_ball is None:
            return None
        return Context(
            scene=scene,
            slot=len(state.used(EXPLORE)),
            held_out_slot=len(state.used(HELD_OUT)),
            revision=state.revision,
            twin=self._peers,
            reach=self._reach_on(scene.table),
            turn=turn,
            rng=np.random.default_rng([state.seed, state.number, _ROLES[role], slot, turn]),
            config=self._config,
            surprise=state.surprise,
            shots_left=state.shots - len(state.used()),
            progress=self.progress,
        )

    def progress(self, text: str) -> None:
        """Tell what is being done; raises when the session should not go on."""
        self._peers.check()
        self._tell(text, keep=False)

    def _expectation(self, shot: Shot, option: Option) -> Expectation | None:
        """Return what is stated of a shot before it is played; None where the twin has nothing to say."""
        if shot.elevation > 0:  # how the tip and the slate share such a blow the twin does not know
            return None
        scene, foreseen = self._peers.scene(), option.foresight
        try:
            if foreseen is None:
                (foreseen,) = self._peers.look_ahead([shot], scene.balls, revision=self._state.revision)
        except TwinError as error:
            self._log(f"nothing is stated of shot {shot.shot_id}: {error}")
        if foreseen is None:
            return None
        return Expectation.of(foreseen, scene.table, shot.speed, scene.balls, self._state.widening)

    def _reach_on(self, table: TableModel) -> Reach:
        if self._reach is None or self._reach[0] != table:
            self._reach = table, WatchedReach(self._make_reach(table), self._peers.check)
        return self._reach[1]

    def _show(self, shot: Shot) -> None:
        times = np.arange(0.0, 8.0, 0.05).tolist()
        scene = self._peers.scene()
        try:
            (prediction,) = self._peers.predict([shot], scene.balls, revision=self._state.revision, times=times)
        except TwinError:
            prediction = None
        self._peers.show(shot, prediction)

    def _strike(self, attempt: Attempt, resumed: bool) -> None:
        shot = attempt.shot
        number = len(self._state.used()) + 1
        text = f"shot {shot.shot_id} ({number} of {self._state.shots}), {attempt.role.replace('_', ' ')}"
        if attempt.role != EXPLORE:
            self._tell(f"striking {text}")
        else:
            self.enter("strike", text)
        result = self._peers.strike(shot, resumed)
        record = None
        if result.struck or result.code in (ArmCode.NONE, ArmCode.ALREADY_STRUCK):
            cancelled = result.code in (ArmCode.CANCELED, ArmCode.TIME_RESET)
            record = None if cancelled else self._peers.record(shot.shot_id)
        self._write_outcome(attempt, result, record)

    def _write_outcome(self, attempt: Attempt, result: ArmResult, record: ShotRecord | None) -> None:
        shot_id = attempt.shot.shot_id
        status = classify(result, record)
        usable = status is StrikeStatus.OBSERVED and record is not None and record.usable
        errors: dict[int, ShotScore | None] = {}
        if record is not None:
            self._evidence.add(shot_id, record)
        if usable:
            errors = {r: self._evidence.score(shot_id, r) for r in {NOMINAL, attempt.revision}}
        stated = None
        if usable and record is not None and attempt.expected is not None:
            stated = residual(record, attempt.expected, self._config.measurement_stddev)
        told = {r: score_to_dict(s) for r, s in errors.items() if s is not None}
        nothing = {"rest_error_m": float("nan"), "along_track_error_m": float("nan")}
        achieved = record.achieved if record is not None else result.achieved
        self._journal.write(
            "outcome",
            what="shot",
            shot_id=shot_id,
            status=status.value,
            code=int(result.code),
            message=result.message,
            struck=result.struck,
            usable=usable,
            flags=list(record.flags) if record is not None else [],
            moved=list(record.moved_ball_ids()) if record is not None else [],
            achieved=None if achieved is None else asdict(achieved),
            **told.get(attempt.revision, nothing),
            unfitted=told.get(NOMINAL, nothing),
            residual=None if stated is None else stated.to_dict(),
        )
        if status is StrikeStatus.TIME_RESET:
            raise SessionEndedError(Code.TIME_RESET, result.message or "the clock jumped back")
        if status is StrikeStatus.CANCELED:
            self._peers.check()  # raises when it was ours; else somebody stopped the arm
            raise SessionEndedError(Code.ARM_FAILED, f"shot {shot_id} was cancelled by somebody else")
        if status is not StrikeStatus.OBSERVED:
            self._log(f"shot {shot_id} {status.value}: {result.message}")

    def _fit(self, step: Fit) -> None:
        state = self._state
        number = len(state.fits) - (1 if step.resumed else 0)
        if step.resumed is None:
            stream = np.random.SeedSequence([state.seed, state.number, _FIT_STREAM, number])
            shares = plan(state, self._config)
            self._journal.write(
                "decision",
                what="fit",
                fit=number,
                shot_ids=list(step.shot_ids),
                held_out_shot_ids=state.held_back if len(state.held_back) > 1 else [],  # one shot decides nothing
                terms=list(step.terms),
                parameters=list(step.parameters),
                seed=int(stream.generate_state(1)[0]),
                evaluations=shares.last_evaluations if step.final else shares.evaluations,
                final=step.final,
                reason=step.why,
            )
        fit = state.fits[-1]
        self.enter("fit", f"fitting {len(fit.shot_ids)} shots" + (", the last fit" if fit.final else ""))
        request = FitRequest(
            fit.shot_ids, fit.seed, fit.evaluations, fit.held_out_ids, () if fit.terms else step.parameters, fit.terms
        )
        result = self._peers.fit(request, step.resumed is not None)
        if result.estimate is not None:
            self.estimates[result.estimate.revision] = result.estimate
        self._journal.write(
            "outcome",
            what="fit",
            fit=number,
            code=result.code,
            message=result.message,
            promoted=result.promoted,
            revision=result.estimate.revision if result.estimate is not None else NOMINAL,
            train_error_m=result.estimate.train_error if result.estimate is not None else float("nan"),
            held_out_error_m=result.estimate.held_out_error if result.estimate is not None else float("nan"),
            parameters=[] if result.estimate is None else fitted_names(result.estimate),
        )
        if result.code == FIT_TIME_RESET:
            raise SessionEndedError(Code.TIME_RESET, result.message or "the clock jumped back")
        self._tell(result.message or "fitted")

    def _judged(self) -> Judged:
        self.enter("validate", "scoring the held-out shots")
        return self._evidence.judged(self._state)

    def _close(self, step: Stop, judged: Judged) -> SessionResult:
        state = self._state
        code, reason = step.code, step.reason
        if code == Code.NONE and not judged.calibrated:
            code, reason = Code.NOT_OBSERVED, "none of the held-out shots can be judged"
        if state.stopped is None:
            self._journal.write("decision", what="stop", code=int(code), reason=reason)
        summary = build_summary(state, judged, code, reason)
        text = summary_lines(summary)
        if self._journal.run_dir:
            write_json(Path(self._journal.run_dir, "summary.json"), summary)
        unfitted, calibrated = summary["held_out"]["unfitted"], summary["held_out"]["calibrated"]
        result = SessionResult(
            code=code,
            message="" if code == Code.NONE else reason,
            summary=text,
            run_directory=self._journal.run_dir,
            shots_used=len(state.used()),
            revision=state.revision,
            unfitted_rest_error=unfitted["rest_error_m"],
            calibrated_rest_error=calibrated["rest_error_m"],
            unfitted_along_track_error=unfitted["along_track_error_m"],
            calibrated_along_track_error=calibrated["along_track_error_m"],
        )
        self._journal.write("result", result=_plain(result.to_dict()))
        self.enter("stopped", reason)
        return result


def fitted_names(estimate: ParameterEstimate) -> list[str]:
    """Return the names of the parameters that an estimate was fitted in."""
    return [name for name, frozen in zip(PARAMETERS, estimate.frozen, strict=True) if not frozen]


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    return {k: float(v) if isinstance(v, np.floating) else v for k, v in data.items()}
