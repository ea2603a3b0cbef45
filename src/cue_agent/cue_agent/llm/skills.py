"""Code that proved useful: kept by name and version in the run folder, with a check that it must pass to be loaded."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from cue_agent.llm.transcript import FOLDER
from cue_agent.llm.workbench import Run, Workbench
from cue_core.errors import CueError
from cue_core.files import write_atomically

NAME = r"[a-z][a-z0-9_]{0,39}"


@dataclass(frozen=True)
class Skill:
    """A module of the workbench: ``from skills import <name>``."""

    name: str
    version: int
    about: str
    code: str
    check: str


class Skills:
    """Those of a run folder; without one they are kept as long as the process lives.

    A skill is loaded once its check passed in this process: what an earlier session left may not work any more.
    """

    def __init__(self, run_dir: str, workbench: Workbench) -> None:
        """Look at what is there; nothing is run yet."""
        self._folder = Path(run_dir, FOLDER, "skills") if run_dir else None
        self._workbench = workbench
        self._kept: dict[str, Skill] = {}
        self._passed: dict[str, bool] = {}
        for path in sorted(self._folder.glob("*.json")) if self._folder is not None else ():
            try:
                data = json.loads(path.read_text(encoding="utf-8"))
                skill = Skill(data["name"], int(data["version"]), data["about"], data["code"], data["check"])
            except (OSError, ValueError, KeyError, TypeError):
                continue  # a damaged file is no skill, and no reason to end a session
            if skill.name not in self._kept or self._kept[skill.name].version < skill.version:
                self._kept[skill.name] = skill

    def save(self, name: str, about: str, code: str, check: str) -> Skill:
        """Keep a new version, if it passes its check.

        Raises:
            CueError: it does not; says what the check printed.
        """
        version = self._kept[name].version + 1 if name in self._kept else 1
        skill = Skill(name, version, about, code, check)
        run = self._try(skill)
        if run.code != 0:
            raise CueError(f"skill {name} did not pass its check (code {run.code}): {run.text[-600:]}")
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self._folder / f"{name}-{version:03d}.json", json.dumps(asdict(skill), indent=1))
        self._kept[name], self._passed[name] = skill, True
        return skill

    def _try(self, skill: Skill) -> Run:
        loaded = {n: s.code for n, s in self._kept.items() if self._passed.get(n) and n != skill.name}
        return self._workbench.run(skill.check, {**loaded, skill.name: skill.code})

    def modules(self) -> dict[str, str]:
        """Return the code of those that pass their check, by name."""
        for name, skill in self._kept.items():
            if name not in self._passed:
                self._passed[name] = self._try(skill).code == 0
        return {n: s.code for n, s in self._kept.items() if self._passed[n]}

    def listed(self) -> list[dict[str, object]]:
        """Return what there is, for the model."""
        loaded = self.modules()
        return [
            {"name": s.name, "version": s.version, "about": s.about, "loaded": s.name in loaded}
            for s in self._kept.values()
        ]
