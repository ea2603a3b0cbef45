"""What a planner is told, what it answers, and what all of them share: looks ahead, limits of risk, escapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from cue_agent.candidates import Candidate, escapes
from cue_agent.config import AgentConfig
from cue_agent.knowledge import Knowledge
from cue_agent.peers import NOMINAL, Foresight, Prediction, Scene, Twin
from cue_agent.reach import Reach, playable
from cue_agent.surprise import Surprise
from cue_agent.value import Value, evaluate, safe, to_come, worth
from cue_core.balls import BallState
from cue_core.shots import Shot

TURNS = 4
_CHUNK = 8
"""Shots looked at between two lines of progress."""
_TOLD_REASONS = 8


@dataclass(frozen=True)
class Context:
    """What a planner may know.

    Attributes:
        scene: balls at rest.
        slot: count of exploration shots played so far.
        held_out_slot: count of held-out shots played so far.
        revision: of the estimate in use, 0 = unfitted.
        twin: predicts shots.
        reach: of the arm.
        turn: how often this choice was made before without an option that worked, below :data:`TURNS`.
        rng: of this turn, the same after a restart.
        config: limits and budgets.
        surprise: how far the outcomes so far lay outside what was stated.
        shots_left: strokes of the session that remain, this one and the held-out ones included.
        progress: takes a line for people; raises when the session should not go on.
    """

    scene: Scene
    slot: int
    held_out_slot: int
    revision: int
    twin: Twin
    reach: Reach
    turn: int
    rng: np.random.Generator
    config: AgentConfig
    surprise: Surprise = field(default_factory=Surprise)
    shots_left: int = 12
    progress: Callable[[str], None] = lambda _text: None


@dataclass(frozen=True)
class Option:
    """A shot that may be played, with its numbers, the reason for it, and what is expected of it."""

    candidate: Candidate
    value: Value
    reason: str
    foresight: Foresight | None = None

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


@dataclass(frozen=True)
class Examined:
    """A candidate that was looked at with the ensemble."""

    candidate: Candidate
    seen: Foresight
    value: Value


@dataclass
class Counted:
    """A twin that counts: compute is budgeted in simulated shots, never in seconds.

    Attributes:
        twin: that answers.
        simulated: shots so far.
    """

    twin: Twin
    simulated: int = 0

    def predict(
        self,
        shots: Sequence[Shot],
        balls: Sequence[BallState],
        *,
        revision: int = NOMINAL,
        ensemble: int = 0,
        times: Sequence[float] = (),
    ) -> list[Prediction | None]:
        """See :class:`cue_agent.peers.Twin`."""
        self.simulated += len(shots) * (1 + ensemble)
        return self.twin.predict(shots, balls, revision=revision, ensemble=ensemble, times=times)

    def look_ahead(
        self, shots: Sequence[Shot], balls: Sequence[BallState], *, revision: int = NOMINAL
    ) -> list[Foresight | None]:
        """See :class:`cue_agent.peers.Twin`."""
        found = self.twin.look_ahead(shots, balls, revision=revision)
        self.simulated += sum(1 if f is None else 1 + len(f.rests) for f in found)
        return found


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def look(context: Context, candidates: Sequence[Candidate], what: str) -> list[tuple[Candidate, Foresight]]:
    """Return what each candidate may do and teach; those that the twin cannot simulate are left out."""
    found: list[tuple[Candidate, Foresight]] = []
    for first in range(0, len(candidates), _CHUNK):
        context.progress(f"{what}: {first} of {len(candidates)}")
        chunk = candidates[first : first + _CHUNK]
        shots = [c.shot(f"candidate-{first + i}") for i, c in enumerate(chunk)]
        answers = context.twin.look_ahead(shots, context.scene.balls, revision=context.revision)
        found += [(c, f) for c, f in zip(chunk, answers, strict=True) if f is not None]
    return found


def usual_gain(context: Context, looked: Sequence[tuple[Candidate, Foresight]], knowledge: Knowledge) -> float:
    """Return the median gain [nat] of shots that were not chosen for it."""
    gains = [worth(context.scene, c.speed, f, knowledge, context.surprise)[0] for c, f in looked]
    return float(np.median(gains)) if gains else 0.0


def values(
    context: Context, looked: Sequence[tuple[Candidate, Foresight]], knowledge: Knowledge, usual: float
) -> list[Examined]:
    """Return the numbers of each candidate looked at; ``usual`` is the gain of a usual shot [nat]."""
    config, scene = context.config, context.scene
    still = to_come(usual, context.shots_left - config.held_out_shots - 1)
    found = []
    for c, f in looked:
        parts = worth(scene, c.speed, f, knowledge, context.surprise)
        value = evaluate(scene, c.speed, f, parts, still, config.rest_stddev, context.reach, config.min_playable)
        found.append(Examined(c, f, value))
    return found


def rank(context: Context, examined: Sequence[Examined], utility: Callable[[Examined], float]) -> list[Examined]:
    """Return the safe ones by falling utility.

    When none is safe, those within three times the limits, safest first; in the last turn all: without a shot the
    session ends, with a risky one it ends perhaps.
    """
    ordered = sorted(examined, key=lambda e: -utility(e))
    kept = [e for e in ordered if safe(e.value, context.config)]
    if kept:
        return kept
    last = context.turn == TURNS - 1
    risky = [e for e in ordered if safe(e.value, context.config, 3.0) or last]
    return sorted(risky, key=lambda e: _danger(e.value))


def _danger(value: Value) -> tuple[float, float]:
    return value.pocket_cue + value.mouth, value.pocket_any + value.stuck + value.rail


def speeds_of(config: AgentConfig) -> tuple[float, float]:
    """Return the slowest and the fastest tip [m/s]."""
    return config.speed_min, config.speed_max


def some_escapes(context: Context) -> tuple[list[Candidate], dict[str, int]]:
    """Return escapes, evenly thinned out to the number that is looked at, and why others are refused."""
    ways, refused = escapes(context.scene, context.reach, context.config.shortlist)
    stride = max(len(ways) // context.config.shortlist, 1)
    return ways[context.turn % stride :: stride], refused


def playable_ones(context: Context, candidates: Iterable[Candidate], count: int) -> list[Candidate]:
    """Return the first ``count`` candidates that the arm can really play."""
    found: list[Candidate] = []
    for c in candidates:
        if len(found) == count:
            break
        # Escapes are the arm's own answers.
        if c.kind == "escape" or playable(context.scene, c.azimuth, c.speed, context.reach)[0]:
            found.append(c)
    return found


def told(refused: Mapping[str, int]) -> dict[str, Any]:
    """Return the commonest reasons for the journal; nothing where none was asked for."""
    common = sorted(refused.items(), key=lambda r: (-r[1], r[0]))[:_TOLD_REASONS]
    return {"refused": dict(common)} if refused else {}
