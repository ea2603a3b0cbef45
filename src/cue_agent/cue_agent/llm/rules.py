"""A player by rules that speaks the Messages API's language: for tests without a model, through all the tools.

It knows nothing but what the tools answer, as a model would: it ranks shots, plays the best that is not refused, fits
after every few, looks at residuals, and gives its verdict when no shot is left to explore.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cue_agent.llm.scripted_server import Call, Say

_SKILL = "def travelled(way):\n    return sum(((a[0]-b[0])**2 + (a[1]-b[1])**2) ** 0.5 for a, b in zip(way, way[1:]))\n"
_CHECK = "from skills import ways\nassert abs(ways.travelled([[0, 0], [0.3, 0.4]]) - 0.5) < 1e-12\n"
_CODE = (
    "import json\nshots = json.load(open('/bench/stage/shots.json'))\n"
    "print('shots', len(shots), 'tracks', sum(len(s['tracks']) for s in shots))\n"
)


@dataclass
class RulePlayer:
    """See the module; one plays one session.

    Attributes:
        first_fit: usable shots before the first fit.
        fit_every: shots between fits.
        seen: what each tool answered last.
        used: names of the tools called.
    """

    first_fit: int = 3
    fit_every: int = 2
    workbench: bool = True
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    _fits: int = 0
    _place: int = 0
    _others: int = 0
    _told: bool = False

    def __call__(self, request: Mapping[str, Any]) -> Say:
        """Return the next answer to a request."""
        last = self._results(request["messages"])
        said = self._next(last)
        self.used |= {c.name for c in said.calls}
        return said

    def _results(self, messages: list[dict[str, Any]]) -> list[str]:
        """Take in the newest results; return the names of the tools that they are of."""
        if len(messages) < 2:
            return []
        names = {b["id"]: b["name"] for b in messages[-2]["content"] if b.get("type") == "tool_use"}
        found = []
        for block in messages[-1]["content"]:
            if block.get("type") != "tool_result":
                continue
            content = block["content"]
            text = content if isinstance(content, str) else content[0]["text"]
            try:
                data = json.loads(text)
            except ValueError:
                data = {"error": text}
            name = names[block["tool_use_id"]]
            self.seen[name] = {**data, "failed": bool(block.get("is_error"))}
            found.append(name)
        return found

    def _next(self, last: list[str]) -> Say:
        if not self.used:
            return _say("I look at the table first.", Call("look", {}), Call("budget", {}), Call("list_terms", {}))
        if "predict_shots" not in self.used:
            shot = {"speed": 0.5, "azimuth": 0.3}
            return _say("What would a plain shot do?", Call("predict_shots", {"shots": [shot], "picture": True}))
        if "note" not in self.used:
            return _say("", Call("note", {"text": "ranked shots first; fit often"}), Call("rank_shots", {"count": 12}))
        if "execute_shot" in last:
            return self._after_shot()
        if "fit" in last:
            return self._after_fit()
        if "rank_shots" in last:
            return self._after_ranking()
        return self._go_on()

    def _go_on(self) -> Say:
        left = self.seen.get("execute_shot", {}).get("shots_left_to_explore", 1)
        if left is None or left > 0:
            self._place = 0
            return _say("", Call("rank_shots", {"count": 12, "others": self._others}))
        return self._finish()

    def _after_ranking(self) -> Say:
        seen = self.seen["rank_shots"]
        if seen.get("limit") in ("shots", "wall_time", "compute"):
            return self._finish()
        if not seen.get("candidates"):
            self._others += 1
            if self._others > 3:
                return self._finish()
            return _say("None can be played; others.", Call("rank_shots", {"count": 12, "others": self._others}))
        return self._strike()

    def _strike(self) -> Say:
        candidates = self.seen["rank_shots"]["candidates"]
        chosen = candidates[self._place]
        self._place += 1
        reason = f"it should bring {chosen.get('gain_nat')} nat at {chosen.get('scatter_cm')} cm scatter"
        return _say("", Call("execute_shot", {"candidate": chosen["candidate"], "reason": reason}))

    def _after_shot(self) -> Say:
        seen = self.seen["execute_shot"]
        if seen.get("limit") in ("shots", "wall_time", "compute"):
            return self._finish()
        if seen["failed"]:
            if seen.get("limit") and self._place < len(self.seen["rank_shots"].get("candidates", [])):
                return self._strike()
            self._place, self._others = 0, min(self._others + 1, 3)
            return _say("Refused; others.", Call("rank_shots", {"count": 12, "others": self._others}))
        self._others = 0
        waiting = seen.get("not_fitted_yet") or 0
        due = waiting >= (self.fit_every if self._fits else self.first_fit)
        if due or (waiting and not seen.get("shots_left_to_explore")):
            self._fits += 1
            return _say("", Call("fit", {"reason": f"shots not fitted yet: {waiting}"}))
        return self._go_on()

    def _after_fit(self) -> Say:
        if self._fits == 1:
            calls = [Call("residuals", {}), Call("held_out_check", {})]
            if self.workbench:
                calls.append(Call("run_python", {"code": _CODE}))
                keep = {"name": "ways", "about": "length of a way", "code": _SKILL, "check": _CHECK}
                calls += [Call("save_skill", keep), Call("list_skills", {})]
            return _say("How well is it explained?", *calls)
        return self._go_on()

    def _finish(self) -> Say:
        if "finish" in self.used:
            return Say("Nothing is left to do.")
        check = self.seen.get("held_out_check", {})
        inside = check.get("share_of_outcomes_inside_stated_95_percent")
        verdict = f"played by rules to the end; outcomes inside what was stated: {inside}"
        return _say("", Call("finish", {"verdict": verdict, "confidence": 0.8}))


def _say(text: str, *calls: Call) -> Say:
    return Say(text, calls)
