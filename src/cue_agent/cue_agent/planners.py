"""Who chooses the next shot. Every planner sees the same context, obeys the same limits, and gives its reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cue_agent.candidates import PROBES, Candidate, aimed, generate, mixed
from cue_agent.choice import (
    TURNS,
    Choice,
    Context,
    Counted,
    Examined,
    Option,
    Planner,
    look,
    playable_ones,
    rank,
    some_escapes,
    speeds_of,
    told,
    usual_gain,
    values,
)
from cue_agent.config import LLM
from cue_agent.knowledge import Knowledge, lesson, typical_goal
from cue_agent.lookahead import DISCOUNT, Thought, future, keeps_balls
from cue_agent.peers import Foresight, Prediction
from cue_agent.promise import Promise, features
from cue_agent.reach import SectorReach
from cue_agent.value import Value, safe, worth
from cue_core.balls import BallState
from cue_core.errors import UnknownNameError
from cue_core.shots import Shot

__all__ = ["TURNS", "Choice", "Context", "Option", "Planner", "choose_held_out", "judges", "make_planner", "safe"]

_VARIED = 0.5
"""Share of the shortlist that is chosen for variety, the others for what these turn out to teach."""


_UNSAFE = 1.0
"""Taken off the promise of a shot beyond the limits of risk [nat]."""


class _Chooser:
    """What planners that look for the best share: proposals, a shortlist, its numbers."""

    def __init__(self) -> None:
        self._goal: tuple[tuple[object, ...], int, Knowledge | None] | None = None

    def knowledge(self, context: Context) -> Knowledge | None:
        """Return what is known and wanted; it depends on estimate, table and balls in play alone."""
        table, config = context.scene.table, context.config
        ids = tuple(sorted(b.ball_id for b in context.scene.balls if b.in_play))
        key = (context.revision, repr(table.to_dict()), ids)
        # A smaller slot is another session, with estimates of its own.
        if self._goal is None or self._goal[0] != key or context.slot < self._goal[1]:
            rng = np.random.default_rng([config.seed, len(ids), 0x60A1])

            def ask(shots: Sequence[Shot], balls: Sequence[BallState]) -> Sequence[Foresight | None]:
                context.progress("looking at what typical shots depend on")
                return context.twin.look_ahead(shots, balls, revision=context.revision)

            found = typical_goal(table, ids, speeds_of(config), config.goal_shots, rng, ask)
            self._goal = key, context.slot, found
        return self._goal[2]

    def propose(self, context: Context) -> tuple[list[Candidate], dict[str, int]]:
        """Return proposals within reach, escapes among them where these are few, and why others are refused."""
        config, scene = context.config, context.scene
        found = mixed(scene, config.candidates, context.rng, speeds_of(config), SectorReach(context.reach))
        if context.turn == 0 and len(found) >= config.candidates // 4:
            return found, {}
        ways, refused = some_escapes(context)
        return found + ways, refused

    def examine(
        self, context: Context, knowledge: Knowledge, proposed: Sequence[Candidate]
    ) -> tuple[list[Examined], dict[str, Any]]:
        """Return the numbers of the shortlist: some for variety, then those like the ones that teach most."""
        config, scene, last = context.config, context.scene, context.turn == TURNS - 1
        context.progress(f"simulating {len(proposed)} proposals")
        shots = [c.shot(f"proposal-{i}") for i, c in enumerate(proposed)]
        outcomes = context.twin.predict(shots, scene.balls, revision=context.revision) if shots else []
        pairs = [(c, p) for c, p in zip(proposed, outcomes, strict=True) if p is not None]
        kept = [(c, p) for c, p in pairs if keeps_balls(scene, p)]
        numbers: dict[str, Any] = {"proposed": len(proposed), "keep_balls": len(kept)}
        kept = pairs if last and not kept else kept
        if not kept:
            return [], numbers
        rows = np.array([features(scene, c, p) for c, p in kept])
        first = self._varied(context, kept, max(round(_VARIED * config.shortlist), 1))
        looked = look(context, [kept[i][0] for i in first], "looking at what shots teach")
        done = set(first)
        place = {id(kept[i][0]): i for i in first}
        usual = usual_gain(context, looked, knowledge)
        examined = values(context, looked, knowledge, usual)
        if examined:
            # What is beyond the limits cannot be played, however much it would teach.
            found = [e.value.utility - (0.0 if safe(e.value, config) else _UNSAFE) for e in examined]
            promise = Promise.of(rows[[place[id(e.candidate)] for e in examined]], found)
            numbers["promise_r2"] = round(promise.explained, 3)
            expected = promise(rows)
            order = [int(i) for i in np.argsort(-expected, kind="stable") if int(i) not in done]
            more = playable_ones(context, (kept[i][0] for i in order), config.shortlist - len(first))
            looked = look(context, more, "looking at the most promising ones")
            examined += values(context, looked, knowledge, usual)
        return examined, {**numbers, "examined": len(examined)}

    @staticmethod
    def _varied(context: Context, kept: Sequence[tuple[Candidate, Prediction]], count: int) -> list[int]:
        """Return places of up to ``count`` playable shots, turn about from every class of contacts and speed."""
        classes: dict[tuple[object, ...], list[int]] = {}
        for i, (c, p) in enumerate(kept):
            key = (min(p.ball_contacts, 2), min(p.cushion_contacts, 2), c.speed > 0.6, c.kind in ("escape", "spin"))
            classes.setdefault(key, []).append(i)
        queues = [classes[key] for key in sorted(classes)]
        found: list[int] = []
        while len(found) < count and any(queues):
            for queue in queues:
                while queue and len(found) < count:
                    i = queue.pop(0)
                    if playable_ones(context, [kept[i][0]], 1):
                        found.append(i)
                        break
        return found


class OfflinePlanner(_Chooser):
    """The shot of the largest utility (see :mod:`cue_agent.value`), from before the first fit on.

    One decision costs ``candidates`` simulated shots, ``shortlist`` looks at the ensemble, ``goal_shots`` more after
    each fit, and for each of the ``finalists`` those of :class:`cue_agent.lookahead.Thought`.
    """

    name = "offline"
    thought = Thought()

    def choose(self, context: Context) -> Choice:
        """Return the options for the next exploration shot, the best first."""
        twin = Counted(context.twin)
        context = replace(context, twin=twin)
        knowledge = self.knowledge(context)
        proposed, refused = self.propose(context)
        if knowledge is None:
            return Choice((), {"proposed": len(proposed), **told(refused)})
        examined, numbers = self.examine(context, knowledge, proposed)
        ranked = rank(context, examined, lambda e: e.value.utility)
        if ranked and safe(ranked[0].value, context.config) and context.shots_left - context.config.held_out_shots > 1:
            ranked = self._think_ahead(context, knowledge, examined, ranked)
        gains = [e.value.gain for e in examined if safe(e.value, context.config)]
        numbers |= {
            "kept": len(ranked),
            **told(refused),
            "goal_error": round(knowledge.error, 6),
            "gain": round(max(gains, default=0.0), 4),
            "simulated": twin.simulated,
        }
        return Choice(tuple(Option(e.candidate, e.value, _because(e.value), e.seen) for e in ranked), numbers)

    def _think_ahead(
        self, context: Context, knowledge: Knowledge, examined: Sequence[Examined], ranked: Sequence[Examined]
    ) -> list[Examined]:
        """Return the same with what may follow the first few, best first; those not looked at follow after them."""
        config, scene = context.config, context.scene
        finalists = list(ranked[: config.finalists])
        rows = np.array([features(scene, e.candidate, e.seen) for e in examined])
        found = []
        for n, e in enumerate(finalists):
            context.progress(f"thinking a shot further: {n} of {len(finalists)}")
            then = knowledge.after(lesson(e.seen))
            taught = [sum(worth(scene, o.candidate.speed, o.seen, then, context.surprise)) for o in examined]
            seed = np.random.default_rng([config.seed, context.slot, 0xAF7E])  # the same luck for all
            ahead = future(
                scene,
                e.seen,
                then,
                Promise.of(rows, taught),
                context.surprise,
                context.twin,
                context.revision,
                speeds_of(config),
                context.reach,
                seed,
                config.max_any_pocket,
                self.thought,
            )
            gained = DISCOUNT * ahead.value
            found.append(replace(e, value=replace(e.value, future=gained, utility=e.value.utility + gained)))
        return sorted(found, key=lambda e: -e.value.utility) + list(ranked[config.finalists :])


class SecondPlanner(OfflinePlanner):
    """The offline planner where a language model explores first."""

    name = LLM


class MisfitPlanner(_Chooser):
    """Baseline: after what surprised, whatever the parameters' covariance says."""

    name = "misfit"

    def choose(self, context: Context) -> Choice:
        """Return safe shots by how much they hold of what surprised, or was never seen."""
        twin = Counted(context.twin)
        context = replace(context, twin=twin)
        knowledge = self.knowledge(context)
        proposed, refused = self.propose(context)
        if knowledge is None:
            return Choice((), {"proposed": len(proposed), **told(refused)})
        examined, numbers = self.examine(context, replace(knowledge, goal=0.0 * knowledge.goal), proposed)
        ranked = rank(context, examined, lambda e: e.value.utility)
        options = tuple(Option(e.candidate, e.value, f"misfit: {_because(e.value)}", e.seen) for e in ranked)
        return Choice(options, {**numbers, "kept": len(ranked), "simulated": twin.simulated, **told(refused)})


class RandomPlanner:
    """Baseline: random legal shots within the same limits of risk."""

    name = "random"

    def choose(self, context: Context) -> Choice:
        """Return safe random shots in the order drawn."""
        return _drawn(context, ["random"], "random legal shot")


class ScriptPlanner:
    """Baseline: the generic probes in turn, whatever was learnt."""

    name = "script"

    def choose(self, context: Context) -> Choice:
        """Return safe shots of the kind whose turn it is, in the order drawn."""
        kind = PROBES[context.slot % len(PROBES)]
        return _drawn(context, [kind], f"script: {kind}")


def _because(value: Value) -> str:
    return (
        f"utility {value.utility:.2f} nat (gain {value.gain:.2f}, surprise {value.surprise:.2f}, novelty "
        f"{value.novelty:.2f}, what may follow {value.future:.2f}, price {value.price:.2f}), {value.ball_contacts} "
        f"ball and {value.cushion_contacts} cushion contacts, pocket {value.pocket_any:.0%}"
    )


def _drawn(context: Context, kinds: Sequence[str], reason: str) -> Choice:
    config, scene = context.config, context.scene
    count, speeds, sectors = 4 * config.drawn, speeds_of(config), SectorReach(context.reach)
    found = generate(scene, kinds, count, context.rng, speeds, sectors) if context.turn == 0 else []
    if not found:
        found = aimed(scene, count, context.rng, speeds, sectors)
    if not found:
        found = generate(scene, ["random"], count, context.rng, speeds, sectors)
    refused: dict[str, int] = {}
    if context.turn > 0 or len(found) < config.drawn // 4:
        ways, refused = some_escapes(context)
        found = found[: config.drawn // 2] + ways
    return _as_drawn(context, playable_ones(context, found, config.drawn), refused, reason)


def _as_drawn(context: Context, candidates: Sequence[Candidate], refused: dict[str, int], reason: str) -> Choice:
    examined, numbers = examined_only(context, candidates, refused)
    ranked = rank(context, examined, lambda _e: 0.0)
    numbers["kept"] = len(ranked)
    return Choice(tuple(Option(e.candidate, e.value, reason, e.seen) for e in ranked), numbers)


def examined_only(
    context: Context, candidates: Sequence[Candidate], refused: Mapping[str, int]
) -> tuple[list[Examined], dict[str, Any]]:
    """Return the numbers of shots that are drawn, not chosen, and those of the choice; without a goal none gains."""
    twin = Counted(context.twin)
    looked = look(replace(context, twin=twin), candidates, "looking at the risks of shots drawn")
    numbers = {"proposed": len(candidates), "examined": len(looked), "simulated": twin.simulated, **told(refused)}
    if not looked:
        return [], numbers
    seen = looked[0][1]
    nothing = Knowledge(seen.names, seen.covariance, np.zeros_like(seen.covariance))
    return values(context, looked, nothing, 0.0), numbers


def choose_held_out(context: Context) -> Choice:
    """Return the options for the next shot that only judges the result; the same for every planner.

    They are drawn, not chosen: legal shots of all speeds at balls and cushions in random order, within the limits of
    risk. Left out are shots whose outcome the stroke's own error scatters too widely: they would judge luck. Every
    other one, beginning with the first, must meet a ball or a cushion, so that at least half of them do.

    From the second turn on escapes are options too. One with a raised cue judges nothing (see :func:`judges`): it only
    gets the cue ball to where ordinary shots are possible.
    """
    config = context.config
    speeds, sectors = speeds_of(config), SectorReach(context.reach)
    drawn = aimed(context.scene, config.drawn, context.rng, speeds, sectors)
    drawn += generate(context.scene, ["random"], config.drawn, context.rng, speeds, sectors)
    drawn = [drawn[i] for i in context.rng.permutation(len(drawn))]
    candidates = playable_ones(context, drawn, config.drawn)
    refused: dict[str, int] = {}
    if context.turn > 0 or len(candidates) < config.drawn // 4:
        ways, refused = some_escapes(context)
        ways = [ways[i] for i in context.rng.permutation(len(ways))]
        candidates += sorted(ways, key=judges, reverse=True)[: config.drawn]
    examined, numbers = examined_only(context, candidates, refused)
    ranked = rank(context, examined, lambda e: float(judges(e.candidate)))
    last = context.turn == TURNS - 1
    ranked = [e for e in ranked if e.value.scatter <= config.max_held_out_scatter or last or not judges(e.candidate)]
    must_touch = context.held_out_slot % 2 == 0 and not last
    touches = [e for e in ranked if e.value.ball_contacts + e.value.cushion_contacts or not judges(e.candidate)]
    ranked = touches if must_touch else ranked
    numbers["kept"] = len(ranked)
    why = {True: "drawn to judge the result", False: "escape, judges nothing"}
    return Choice(tuple(Option(e.candidate, e.value, why[judges(e.candidate)], e.seen) for e in ranked), numbers)


def judges(candidate: Candidate) -> bool:
    """Tell whether a shot can judge the result: an ordinary, level one can."""
    return candidate.elevation == 0.0


def make_planner(name: str) -> Planner:
    """Return a planner by name.

    Raises:
        UnknownNameError: lists the names.
    """
    made: tuple[Planner, ...] = (OfflinePlanner(), RandomPlanner(), ScriptPlanner(), MisfitPlanner(), SecondPlanner())
    planners = {p.name: p for p in made}
    if name not in planners:
        raise UnknownNameError("planner", name, planners)
    return planners[name]
