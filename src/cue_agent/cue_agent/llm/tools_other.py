"""Tools for what is left, for notes, for code of the model's own, and for the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cue_agent.journal import Action
from cue_agent.judgement import VERDICT
from cue_agent.llm.fields import Number, Text
from cue_agent.llm.pictures import png_of
from cue_agent.llm.registry import LimitError, Picture, Reply, Tool
from cue_agent.llm.skills import NAME
from cue_agent.llm.workbench import as_json
from cue_agent.llm.workspace import Workspace
from cue_agent.peers import NOMINAL
from cue_core.errors import CueError
from cue_core.shots import BallTrack

_MOST_NOTES = 60
_TRIES = 3  # fits without an estimate that was promoted, after which a verdict is taken all the same


def other_tools(work: Workspace) -> list[Tool]:
    """Return the tools; those of the workbench only where it is switched on."""
    other = _Other(work)
    found = [
        Tool("budget", "Say what is left: shots, fits, answers, tokens, money, time.", {}, other.budget),
        Tool(
            "note",
            "Keep a note for yourself. Notes stay when old parts of the conversation are left out.",
            {"text": Text("of the note", 1500, 1)},
            other.note,
        ),
        Tool(
            "finish",
            "End exploration with a verdict. What is not fitted is fitted, then the held-out shots are played and "
            "judge the result; you cannot choose those.",
            {
                "verdict": Text("what the twin explains, and what it does not", 2000, 10),
                "confidence": Number("that its held-out errors stay within what it states", 0.0, 1.0),
            },
            other.finish,
        ),
    ]
    if work.config.workbench:
        found += [
            Tool(
                "run_python",
                "Run Python of your own on the session's data: no network, limited time and memory. /bench/stage/"
                "shots.json holds the shots (tracks in metres and seconds), /bench/stage/image.png the newest camera "
                "image where there is one; numpy, scipy and cv2 are there. What is printed comes back, and PNG files "
                "from the working folder. Modules kept by save_skill are imported by 'from skills import NAME'.",
                {"code": Text("Python", 20_000, 1)},
                other.python,
            ),
            Tool(
                "save_skill",
                "Keep code that proved useful as a module, under a name and a new version. The check is run first and "
                "must end without an error; later sessions in this run folder run it again before they load it.",
                {
                    "name": Text("of the module", 40, 1, NAME),
                    "about": Text("what it is for", 400, 3),
                    "code": Text("of the module", 20_000, 1),
                    "check": Text("code that imports it and fails if it is wrong", 8000, 1),
                },
                other.save,
            ),
            Tool("list_skills", "List what was kept, and whether it passes its check.", {}, other.skills),
        ]
    return found


class _Other:
    def __init__(self, work: Workspace) -> None:
        self._work = work

    def budget(self) -> Mapping[str, Any]:
        """See :func:`other_tools`."""
        return {**self._work.standing(), "plan": self._work.plan().to_dict(), "spent": self._work.ledger.to_dict()}

    def note(self, text: str) -> Mapping[str, Any]:
        """See :func:`other_tools`."""
        if len(self._work.transcript.notes) >= _MOST_NOTES:
            raise LimitError("notes", f"{_MOST_NOTES} are kept")
        self._work.transcript.write("note", text=text)
        return {"kept": len(self._work.transcript.notes)}

    def finish(self, verdict: str, confidence: float) -> Mapping[str, Any]:
        """See :func:`other_tools`."""
        work, state = self._work, self._work.state
        if state.revision == NOMINAL and len(state.fits) < _TRIES and work.plan().explore_left > 0:
            raise CueError("no estimate was promoted yet: play shots and fit them first")
        work.transcript.write("verdict", text=verdict, confidence=confidence)
        work.decide(Action.VALIDATE, f"{VERDICT}: {verdict[:400]}", told={"confidence": confidence})
        return {"done": True, "held_out_shots": work.plan().held_out_left}

    def python(self, code: str) -> Reply:
        """See :func:`other_tools`."""
        work = self._work
        if work.ledger.runs >= work.config.workbench_runs:
            raise LimitError("workbench_runs", f"{work.ledger.runs} were had")
        work.workbench.files["shots.json"] = as_json(self._shots())
        seen = work.image()
        if seen is not None:
            work.workbench.files["image.png"] = png_of(seen)
        modules = work.skills.modules() if not work.workbench.problem() else {}
        run = work.workbench.run(code, modules)
        work.ledger.runs += 1
        pictures = tuple(Picture(png, name) for name, png in run.pictures)
        late = {"error": f"stopped after {work.workbench.seconds:g} s"} if run.code == 124 else {}
        return Reply({"printed": run.text, "exit_code": run.code, **late}, pictures, failed=run.code != 0)

    def _shots(self) -> list[dict[str, Any]]:
        found = []
        for attempt in self._work.state.attempts:
            record = self._work.session.evidence.record(attempt.shot.shot_id)
            if record is None:
                continue
            stroke = record.achieved
            found.append(
                {
                    "shot": record.shot_id,
                    "flags": list(record.flags),
                    "achieved": None if stroke is None else {"speed": stroke.tip_speed, "azimuth": stroke.azimuth},
                    "before": {str(b.ball_id): b.position.tolist() for b in record.before if b.in_play},
                    "after": {str(b.ball_id): b.position.tolist() for b in record.after if b.in_play},
                    "tracks": {
                        str(t.ball_id): {"time": t.time.tolist(), "position": t.position.tolist()}
                        for t in record.tracks
                    },
                }
            )
        return found

    def save(self, name: str, about: str, code: str, check: str) -> Mapping[str, Any]:
        """See :func:`other_tools`."""
        work = self._work
        if work.ledger.runs >= work.config.workbench_runs:
            raise LimitError("workbench_runs", f"{work.ledger.runs} were had")
        work.ledger.runs += 1
        skill = work.skills.save(name, about, code, check)
        return {"name": skill.name, "version": skill.version, "passed": True}

    def skills(self) -> Mapping[str, Any]:
        """See :func:`other_tools`."""
        problem = self._work.workbench.problem()
        return {"skills": [] if problem else self._work.skills.listed(), **({"closed": problem} if problem else {})}


def _track(track: BallTrack) -> dict[str, Any]:
    return {"time": track.time.tolist(), "position": track.position.tolist()}
