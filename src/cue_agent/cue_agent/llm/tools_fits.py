"""Tools that fit the twin to shots, say how well it explains them, and choose among estimates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cue_agent.journal import EXPLORE, Action
from cue_agent.judgement import DROPPED_SHARE, ROLL_BACKS
from cue_agent.llm.fields import Many, OneOf, Text, Whole
from cue_agent.llm.pictures import draw_errors, draw_shot
from cue_agent.llm.registry import LimitError, Picture, Reply, Tool
from cue_agent.llm.workspace import Workspace
from cue_agent.peers import NOMINAL
from cue_agent.steps import AUTO, Fit, RollBack
from cue_agent.surprise import coverage95
from cue_core.errors import CueError
from cue_core.parameters import PARAMETERS, ParameterEstimate
from cue_core.terms import TERMS

_SHOT = r"s[0-9]{3,6}"


def fit_tools(work: Workspace) -> list[Tool]:
    """Return the tools."""
    fits = _Fits(work)
    shot = Text("id of a shot", 8, 4, _SHOT)
    names = tuple(PARAMETERS)
    return [
        Tool(
            "list_terms",
            "List the terms of the dynamics with their parameters: unit, range, and value with standard deviation in "
            "the estimate in use.",
            {},
            fits.terms,
        ),
        Tool(
            "fit",
            "Fit the twin to the exploration shots. A held-out gate decides whether the estimate is promoted. Choose "
            "parameters to fit only those and freeze the others, or terms auto to let held-out evidence choose.",
            {
                "reason": Text("why now", 600, 3),
                "terms": OneOf("usual parameters, or auto", ("usual", AUTO)),
                "parameters": Many("names, see list_terms; empty = the usual ones", OneOf("name", names), len(names)),
                "drop": Many("shots to leave out of this fit and all later ones; few", shot, 10),
                "hold_back": Many("shots that judge fits rather than being fitted; few", shot, 10),
            },
            fits.fit,
            ("terms", "parameters", "drop", "hold_back"),
        ),
        Tool(
            "residuals",
            "Say how far the twin is off on each shot played: before any fit, with the estimate in use, and in stated "
            "standard deviations; with a picture of the errors, or of one shot.",
            {"shot": shot},
            fits.residuals,
            ("shot",),
        ),
        Tool(
            "held_out_check",
            "Hold the estimate in use against shots that it was not fitted to, and against the one before it.",
            {},
            fits.held_out,
        ),
        Tool(
            "roll_back",
            "Use an earlier promoted estimate again.",
            {"revision": Whole("of the estimate", 1, 10_000), "reason": Text("why", 600, 3)},
            fits.roll_back,
        ),
    ]


class _Fits:
    def __init__(self, work: Workspace) -> None:
        self._work = work

    def _estimate(self) -> ParameterEstimate | None:
        revision = self._work.state.revision
        return ParameterEstimate.nominal() if revision == NOMINAL else self._work.session.estimates.get(revision)

    def terms(self) -> Mapping[str, Any]:
        """See :func:`fit_tools`."""
        estimate = self._estimate()
        values = dict(zip(PARAMETERS, estimate.values.tolist(), strict=True)) if estimate is not None else {}
        stddevs = dict(zip(PARAMETERS, estimate.stddevs.tolist(), strict=True)) if estimate is not None else {}
        listed = {}
        for term in TERMS:
            rows = {}
            for p in term.parameters:
                row: dict[str, Any] = {"unit": p.unit, "range": [p.minimum, p.maximum], "usual": p.fitted}
                if p.name in values:
                    row |= {"value": values[p.name], "stddev": stddevs[p.name]}
                rows[p.name] = row
            listed[term.name] = rows
        note = "" if estimate is not None else "values of the estimate in use are not known since a restart; fit anew"
        return {"revision": self._work.state.revision, "terms": listed, **({"note": note} if note else {})}

    def fit(
        self,
        reason: str,
        terms: str = "usual",
        parameters: Sequence[str] = (),
        drop: Sequence[str] = (),
        hold_back: Sequence[str] = (),
    ) -> Mapping[str, Any]:
        """See :func:`fit_tools`."""
        work, state = self._work, self._work.state
        most = max(int(work.config.fits_per_shot * state.shots), 1)
        if len(state.fits) >= most:
            raise LimitError("fits_per_shot", f"{len(state.fits)} of {most} fits are used up")
        if not work.plan().compute_left > 0:
            raise LimitError("compute_budget", "no simulated shots are left for a fit")
        if terms == AUTO and parameters:
            raise CueError("terms auto chooses the parameters by itself: leave parameters out")
        self._check_shots(drop, hold_back)
        left = [i for i in state.to_fit if i not in drop and i not in hold_back]
        if not left:
            raise CueError("there is no usable shot to fit yet")
        for shot_id in drop:
            work.decide(Action.DROP, reason, shot_id=shot_id)
        for shot_id in hold_back:
            work.decide(Action.HOLD_OUT, reason, shot_id=shot_id)
        work.decide(Action.ENLARGE if terms == AUTO else Action.FIT, reason)
        asked = (AUTO,) if terms == AUTO else ()
        work.session.carry_out(Fit(state.to_fit, False, reason, asked, tuple(parameters) or self._usual(terms)))
        done = state.fits[-1]
        data: dict[str, Any] = {
            "promoted": done.promoted,
            "revision": done.revision,
            "message": done.message,
            "shots_fitted": len(done.shot_ids),
            "revision_in_use": state.revision,
        }
        estimate = work.session.estimates.get(done.revision)
        if estimate is not None:
            data |= {"train_error_cm": 100 * estimate.train_error, "held_out_error_cm": 100 * estimate.held_out_error}
            data["estimate"] = _rows(estimate)
        return data

    def _usual(self, terms: str) -> tuple[str, ...]:
        return () if terms == AUTO else self._work.state.parameters

    def _check_shots(self, drop: Sequence[str], hold_back: Sequence[str]) -> None:
        state, config = self._work.state, self._work.agent
        known = state.to_fit
        for name, ids in (("drop", drop), ("hold_back", hold_back)):
            for n, shot_id in enumerate(ids):
                if shot_id not in known or shot_id in ids[:n]:
                    raise CueError(f"{name}[{n}] is {shot_id!r}, allowed is each of {', '.join(known) or 'none'} once")
        if set(drop) & set(hold_back):
            raise CueError("a shot is both in drop and in hold_back")
        total = len(known) + len(state.dropped)
        if drop and len(state.dropped) + len(drop) > DROPPED_SHARE * total:
            raise LimitError("dropped_share", f"at most {DROPPED_SHARE:.0%} of {total} shots may be dropped")
        if hold_back and len(state.held_back) + len(hold_back) > config.max_held_back:
            raise LimitError("max_held_back", f"at most {config.max_held_back} shots may be held back")

    def residuals(self, shot: str = "") -> Reply:
        """See :func:`fit_tools`."""
        work, evidence = self._work, self._work.session.evidence
        if shot:
            record = evidence.record(shot)
            if record is None:
                raise CueError(f"shot is {shot!r}, of which there is no record")
            picture = draw_shot(work.session.peers.scene().table, record, evidence.replay(shot, work.state.revision))
            error = evidence.rest_error(shot, work.state.revision)
            return Reply({"shot": shot, "flags": list(record.flags), "rest_error_cm": 100 * error}, (picture,))
        rows, errors = [], {}
        for attempt in work.state.used(EXPLORE):
            shot_id = attempt.shot.shot_id
            if not attempt.usable:
                continue
            pair = evidence.rest_error(shot_id, NOMINAL), evidence.rest_error(shot_id, work.state.revision)
            errors[shot_id] = pair
            level = attempt.residual.level if attempt.residual is not None and attempt.residual.z2 else math.nan
            rows.append(
                {
                    "shot": shot_id,
                    "unfitted_cm": 100 * pair[0],
                    "now_cm": 100 * pair[1],
                    "stated_deviations_when_played": math.sqrt(level) if level == level else math.nan,
                }
            )
        surprising = {t: row["level"] for t, row in work.state.surprise.to_dict().items()}
        pictures: tuple[Picture, ...] = (draw_errors(errors),) if errors else ()
        return Reply({"shots": rows, "mean_square_deviation_by_trait": surprising}, pictures)

    def held_out(self) -> Mapping[str, Any]:
        """See :func:`fit_tools`."""
        work = self._work
        facts = work.session.evidence.facts(work.state)
        return {
            "revision": work.state.revision,
            "rest_error_on_fitted_shots_cm": {i: 100 * e for i, e in facts.fitted.items()},
            "now_and_before_on_shots_neither_was_fitted_to_cm": {
                i: [100 * a, 100 * b] for i, (a, b) in facts.rivals.items()
            },
            "share_of_outcomes_inside_stated_95_percent": coverage95(work.state.residuals),
            "note": "the held-out shots that judge the result are played after finish",
        }

    def roll_back(self, revision: int, reason: str) -> Mapping[str, Any]:
        """See :func:`fit_tools`."""
        work, state = self._work, self._work.state
        known = [r for r in state.in_use[:-1] if r != NOMINAL and r != state.revision]
        if revision not in known:
            raise CueError(f"revision is {revision}, allowed is one of {', '.join(map(str, known)) or 'none'}")
        if len(state.rolled_back) >= ROLL_BACKS:
            raise LimitError("roll_backs", f"{len(state.rolled_back)} were had")
        work.decide(Action.ROLL_BACK, reason, revision=revision)
        work.session.carry_out(RollBack(revision))
        return {"revision_in_use": state.revision, "same_as": revision}


def _rows(estimate: ParameterEstimate) -> dict[str, Any]:
    found = {}
    for n, name in enumerate(PARAMETERS):
        if not estimate.frozen[n]:
            row: dict[str, Any] = {"value": float(estimate.values[n]), "stddev": float(estimate.stddevs[n])}
            if estimate.at_bound[n]:
                row["at_bound"] = True
            if not estimate.identifiable[n]:
                row["identifiable"] = False
            found[name] = row
    return found
