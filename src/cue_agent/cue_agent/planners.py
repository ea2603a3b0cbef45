"""Who chooses the next shot. Every planner sees the same context, obeys the same limits, and gives its reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from cue_agent.candidates import PROBES, Candidate, aimed, escapes, generate
from cue_agent.config import PLANNERS, AgentConfig
from cue_agent.misfit import KINDS, Misfit, misfit
from cue_agent.peers import NOMINAL, Prediction, Scene, Twin, TwinError
from cue_agent.reach import Reach, SectorReach, playable
from cue_agent.surprise import Surprise
from cue_agent.value import Value, copies, evaluate, shares, worries
from cue_core.errors import UnknownNameError
from cue_core.shots import Shot, ShotRecord

TURNS = 4
_LARGEST_REQUEST = 128
"""Simulations asked of the twin at once: it answers in time on a busy machine too."""
_TOLD_REASONS = 8
_LEAST_DOUBT = 0.03
"""Least relative error of the speed against which risks are weighed."""
_NOTHING_KNOWN: Mapping[str, Misfit] = dict.fromkeys(KINDS, Misfit(0.0, 0))


@dataclass(frozen=True)
class Context:
    """What a planner may know.

    Attributes:
        scene: balls at rest.
        slot: count of exploration shots played so far.
        held_out_slot: count of held-out shots played so far.
        revision: of the estimate in use, 0 = unfitted.
        explained: exploration shots with what the twin predicts for them now.
        twin: predicts shots.
        reach: of the arm.
        turn: how often this choice was made before without an option that worked, below :data:`TURNS`.
        rng: of this turn, the same after a restart.
        config: limits and budgets.
        surprise: what past shots say about the twin's statements, by traits of shots.
        shots_left: of the budget, this one included, held-out ones too.
        progress: told, now and then, what is being done; raises when the session is cancelled.
    """

    scene: Scene
    slot: int
    held_out_slot: int
    revision: int
    explained: Sequence[tuple[ShotRecord, Prediction]]
    twin: Twin
    reach: Reach
    turn: int
    rng: np.random.Generator
    config: AgentConfig
    surprise: Surprise = field(default_factory=Surprise)
    shots_left: int = 0
    progress: Callable[[str], None] = lambda _text: None


@dataclass(frozen=True)
class Option:
    """A shot that may be played, with its numbers and the reason for it."""

    candidate: Candidate
    value: Value
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for the journal."""
        return {**asdict(self.candidate), **{k: _rounded(v) for k, v in asdict(self.value).items()}}


@dataclass(frozen=True)
class Choice:
    """Options, the best first, and how they came about."""

    options: tuple[Option, ...]
    numbers: dict[str, Any] = field(default_factory=dict)


class Planner(Protocol):
    """Chooses exploration shots."""

    @property
    def name(self) -> str:
        """Return the name that the ``planner`` parameter has for it."""

    def choose(self, context: Context) -> Choice:
        """Return options for the next exploration shot, the best first; it is asked again when none of them works."""


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def _ask(context: Context, shots: Sequence[Shot], ensemble: int) -> list[Prediction | None]:
    """Return predictions; None for a shot that the twin cannot simulate."""
    if not shots:
        return []
    if len(shots) * (ensemble + 1) > _LARGEST_REQUEST and len(shots) > 1:
        middle = len(shots) // 2
        return _ask(context, shots[:middle], ensemble) + _ask(context, shots[middle:], ensemble)
    balls = context.scene.balls
    try:
        return list(context.twin.predict(shots, balls, revision=context.revision, ensemble=ensemble))
    except TwinError:
        if len(shots) == 1:
            return [None]
    middle = len(shots) // 2  # one bad shot spoils the whole answer: find it by halves
    return _ask(context, shots[:middle], ensemble) + _ask(context, shots[middle:], ensemble)


def examine(
    context: Context, candidates: Sequence[Candidate], misfits: Mapping[str, Misfit]
) -> list[tuple[Candidate, Value]]:
    """Return the numbers of each candidate over the posterior ensemble; those the twin cannot simulate are left out.

    Costs ``ensemble + 1`` simulated shots for each candidate and 20 more for its copies.
    """
    config = context.config
    fitted = context.revision != NOMINAL
    speed_stddev = config.speed_stddev if fitted else config.nominal_speed_stddev
    doubt = config.azimuth_stddev if fitted else config.nominal_azimuth_stddev
    shots = [c.shot(f"candidate-{i}") for i, c in enumerate(candidates)]
    predictions = _ask(context, shots, config.ensemble if fitted else 0)
    perturbed = _ask(context, [p for s in shots for p in copies(s, speed_stddev, config.azimuth_stddev)], 0)
    strayed = _ask(context, [p for s in shots for p in worries(s, max(speed_stddev, _LEAST_DOUBT), doubt)], 0)
    share = len(strayed) // max(len(shots), 1)
    found = []
    for i, (candidate, prediction) in enumerate(zip(candidates, predictions, strict=True)):
        around = [p for p in perturbed[4 * i : 4 * i + 4] if p is not None]
        if prediction is None or len(around) < 4:
            continue
        value = evaluate(
            context.scene,
            prediction,
            around,
            [p for p in strayed[share * i : share * (i + 1)] if p is not None],
            config.ensemble if fitted else 0,
            misfits,
            config.measurement_stddev,
            config.rest_stddev if fitted else config.nominal_rest_stddev,
            context.reach,
            config.min_playable,
        )
        found.append((candidate, value))
    return found


def safe(value: Value, config: AgentConfig, slack: float = 1.0) -> bool:
    """Tell whether a shot's risks are within the limits, widened by ``slack``."""
    return (
        value.pocket_cue + value.mouth <= slack * config.max_cue_pocket
        and value.pocket_any <= slack * config.max_any_pocket
        and value.stuck <= slack * config.max_stuck
    )


def _rank(
    context: Context, examined: Sequence[tuple[Candidate, Value]], utility: Callable[[Candidate, Value], float]
) -> list[tuple[Candidate, Value]]:
    """Return the safe ones by falling utility.

    When none is safe, those within three times the limits, safest first; in the last turn all: without a shot the
    session ends, with a risky one it ends perhaps.
    """
    order = sorted(range(len(examined)), key=lambda i: (-utility(*examined[i]), i))
    kept = [examined[i] for i in order if safe(examined[i][1], context.config)]
    if kept:
        return kept
    last = context.turn == TURNS - 1
    risky = [examined[i] for i in order if safe(examined[i][1], context.config, 3.0) or last]
    return sorted(risky, key=lambda e: (e[1].pocket_cue + e[1].mouth, e[1].pocket_any + e[1].stuck + e[1].rail))


def _speeds(config: AgentConfig) -> tuple[float, float]:
    return config.speed_min, config.speed_max


def _candidates(context: Context, kinds: Sequence[str]) -> tuple[list[Candidate], dict[str, int]]:
    """Return candidates of the kinds that are likely playable; other kinds where the table gives none of these.

    Where it gives few, or none of them worked at the first turn, escapes come beside them, and why others are refused.
    """
    count, rng, speeds, scene = context.config.candidates, context.rng, _speeds(context.config), context.scene
    sectors = SectorReach(context.reach)
    found = generate(scene, kinds, count, rng, speeds, sectors) if kinds and context.turn == 0 else []
    if not found:
        found = aimed(scene, count, rng, speeds, sectors)
    if not found:
        found = generate(scene, ["random"], count, rng, speeds, sectors)
    if context.turn == 0 and len(found) >= count // 4:
        return found, {}
    ways, refused = _escapes(context)
    return found + ways, refused


def _escapes(context: Context) -> tuple[list[Candidate], dict[str, int]]:
    """Return escapes, evenly thinned out to the number of candidates, and why others are refused."""
    ways, refused = escapes(context.scene, context.reach, context.config.shortlist)
    stride = max(len(ways) // context.config.candidates, 1)
    return ways[context.turn % stride :: stride], refused


def _playable_ones(context: Context, candidates: Iterable[Candidate], count: int) -> list[Candidate]:
    """Return the first ``count`` candidates that the arm can really play."""
    found: list[Candidate] = []
    for c in candidates:
        if len(found) == count:
            break
        # Escapes are the arm's own answers.
        if c.kind == "escape" or playable(context.scene, c.azimuth, c.speed, context.reach)[0]:
            found.append(c)
    return found


def _as_meant(kind: str, prediction: Prediction) -> bool:
    balls, cushions = prediction.ball_contacts, prediction.cushion_contacts
    return {
        "roll": balls == 0 and cushions == 0,
        "one_cushion": balls == 0 and cushions >= 1,
        "two_cushion": balls == 0 and cushions >= 2,
        "half_ball": balls >= 1,
        "head_on": balls >= 1,
    }.get(kind, balls + cushions >= 1)


class OfflinePlanner:
    """Generic probes first, then the shots of the largest utility (see :mod:`cue_agent.value`).

    One decision costs ``candidates`` simulated shots for the mean outcome of each proposal, and ``ensemble + 21`` for
    each of the ``shortlist``.
    """

    name = "offline"

    def choose(self, context: Context) -> Choice:
        """Return the options for the next exploration shot, the best first."""
        probe = PROBES[context.slot % len(PROBES)] if context.slot < context.config.probes else ""
        candidates, refused = _candidates(context, [probe] if probe else [])
        misfits = misfit(context.explained, context.scene.table) if context.explained else _NOTHING_KNOWN
        shots = [c.shot(f"candidate-{i}") for i, c in enumerate(candidates)]
        likely = [
            (c, p)
            for c, p in zip(candidates, _ask(context, shots, 0), strict=True)
            if p is not None and (context.turn == TURNS - 1 or not np.any(p.pocket_probability > 0.5))
        ]
        meant = [(c, p) for c, p in likely if _as_meant(probe or c.kind, p)] or likely
        shortlist = sorted(range(len(meant)), key=lambda i: (-self._promise(context, meant[i][1], misfits), i))
        chosen = self._shortlist(context, [meant[i][0] for i in shortlist])
        examined = examine(context, chosen, misfits)
        ranked = _rank(context, examined, lambda _candidate, value: value.utility)
        why = f"probe {probe}" if probe else "largest utility"
        numbers = {
            "proposed": len(candidates),
            "without_pocket": len(likely),
            "examined": len(examined),
            "kept": len(ranked),
            **_told(refused),
            "misfit": {k: {"growth": _rounded(m.growth), "stretches": m.stretches} for k, m in misfits.items()},
        }
        return Choice(tuple(Option(c, v, f"{why}: {_because(v)}") for c, v in ranked), numbers)

    @staticmethod
    def _shortlist(context: Context, ordered: Sequence[Candidate]) -> list[Candidate]:
        """Return the most promising ones, with some long rolls and escapes among them.

        The promise cannot see what those are good for: the slope of the bed, and a table on which little else works.
        """
        count = context.config.shortlist
        share = max(count // 4, 1)
        kinds = ("roll",) if context.turn == 0 else ("roll", "escape")
        special = [c for kind in kinds for c in _playable_ones(context, (c for c in ordered if c.kind == kind), share)]
        rest = (c for c in ordered if c not in special)
        return _playable_ones(context, rest, count - len(special)) + special

    @staticmethod
    def _promise(context: Context, prediction: Prediction, misfits: Mapping[str, Misfit]) -> float:
        """Return a cheap stand-in for the utility: what kinds of events the shot holds that are badly known."""
        part = shares(context.scene, prediction)
        return sum(part[k] * (misfits[k].growth / 0.02 + 1 / (1 + misfits[k].stretches)) for k in KINDS)


def _because(value: Value) -> str:
    return (
        f"utility {value.utility:.2f} nat (information {value.information:.2f}, misfit {value.misfit:.2f}, "
        f"novelty {value.novelty:.2f}), {value.ball_contacts} ball and {value.cushion_contacts} cushion contacts, "
        f"pocket {value.pocket_any:.0%}"
    )


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


def _drawn(context: Context, kinds: Sequence[str], reason: str) -> Choice:
    drawn, refused = _candidates(context, kinds)
    candidates = _playable_ones(context, drawn, context.config.shortlist)
    examined = examine(context, candidates, _NOTHING_KNOWN)
    ranked = _rank(context, examined, lambda _candidate, _value: 0.0)
    numbers = {"proposed": len(candidates), "examined": len(examined), "kept": len(ranked), **_told(refused)}
    return Choice(tuple(Option(c, v, reason) for c, v in ranked), numbers)


def _told(refused: Mapping[str, int]) -> dict[str, Any]:
    """Return the commonest reasons for the journal; nothing where none was asked for."""
    common = sorted(refused.items(), key=lambda r: (-r[1], r[0]))[:_TOLD_REASONS]
    return {"refused": dict(common)} if refused else {}


def choose_held_out(context: Context) -> Choice:
    """Return the options for the next shot that only judges the result; the same for every planner.

    They are drawn, not chosen: legal shots of all speeds at balls and cushions in random order, within the limits of
    risk. Left out are shots whose outcome the stroke's own error scatters too widely: they would judge luck. Every
    other one, beginning with the first, must meet a ball or a cushion, so that at least half of them do.

    From the second turn on escapes are options too. One with a raised cue judges nothing (see :func:`judges`): it only
    gets the cue ball to where ordinary shots are possible.
    """
    config = context.config
    speeds, sectors = _speeds(config), SectorReach(context.reach)
    drawn = aimed(context.scene, config.shortlist, context.rng, speeds, sectors)
    drawn += generate(context.scene, ["random"], config.shortlist, context.rng, speeds, sectors)
    drawn = [drawn[i] for i in context.rng.permutation(len(drawn))]
    candidates = _playable_ones(context, drawn, config.shortlist)
    refused: dict[str, int] = {}
    if context.turn > 0 or len(candidates) < config.shortlist // 4:
        ways, refused = _escapes(context)
        ways = [ways[i] for i in context.rng.permutation(len(ways))]
        candidates += sorted(ways, key=judges, reverse=True)[: config.shortlist]
    examined = examine(context, candidates, _NOTHING_KNOWN)
    ranked = _rank(context, examined, lambda candidate, _value: float(judges(candidate)))
    last = context.turn == TURNS - 1
    ranked = [e for e in ranked if e[1].scatter <= config.max_held_out_scatter or last or not judges(e[0])]
    must_touch = context.held_out_slot % 2 == 0 and not last
    ranked = [e for e in ranked if not must_touch or e[1].ball_contacts + e[1].cushion_contacts or not judges(e[0])]
    numbers = {"proposed": len(candidates), "examined": len(examined), "kept": len(ranked), **_told(refused)}
    return Choice(
        tuple(Option(c, v, "drawn to judge the result" if judges(c) else "escape, judges nothing") for c, v in ranked),
        numbers,
    )


def judges(candidate: Candidate) -> bool:
    """Tell whether a shot can judge the result: an ordinary, level one can."""
    return candidate.elevation == 0.0


def make_planner(name: str) -> Planner:
    """Return a planner by name.

    Raises:
        UnknownNameError: lists the names.
    """
    planners: dict[str, Planner] = {p.name: p for p in (OfflinePlanner(), RandomPlanner(), ScriptPlanner())}
    if name not in planners:
        raise UnknownNameError("planner", name, PLANNERS)
    return planners[name]
