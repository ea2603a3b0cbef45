"""The loop of the simulation: predict what comes next, go there, settle it, predict anew what it changed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from cue_core.errors import CueError, FileFormatError
from cue_core.table import TableModel
from cue_sim.laws import Laws
from cue_sim.reference import clusters
from cue_sim.reference.cushions import nose_law
from cue_sim.reference.events import (
    FROZEN,
    Nose,
    Surroundings,
    ball_reach,
    circle_entry,
    difference,
    moved,
    tilted_normal,
)
from cue_sim.reference.impacts import SLOW, Body, ball_on_ball, ball_on_nose
from cue_sim.reference.motion import Cloth, Phase, Piece, State
from cue_sim.reference.pairs import pair_law
from cue_sim.reference.path import Event, EventKind

_TOGETHER = 1e-12  # s: events that are no further apart happen together
_JUST_BEFORE = 0.01  # s: bodies that met no longer ago meet again; see :func:`.impacts.rebound`
_MOST_EVENTS = 100_000


class SimulationError(CueError):
    """The reference met something that it cannot simulate."""


class Quiet(IntEnum):
    """What happens to a ball without being an event of the shot."""

    NEW_PIECE = -1
    OVER_DROP = -2
    OFF_DROP = -3


class Next(NamedTuple):
    """What is predicted for a ball, or for a pair of balls."""

    time: float
    kind: EventKind | Quiet
    ball: int
    other: int
    nose: Nose | None = None


_NEVER = Next(math.inf, Quiet.NEW_PIECE, -1, -1)


class Ball:
    """One ball: what it is, and its motion so far."""

    def __init__(self, radius: float, mass: float, surroundings: Surroundings) -> None:
        self.radius = radius
        self.mass = mass
        self.surroundings = surroundings
        self.pieces: list[Piece] = []
        self.pocket: int | None = None
        self.over: tuple[int, float] | None = None  # which drop, and since when
        self.playing = False

    @property
    def piece(self) -> Piece:
        """Return the present piece of its motion."""
        return self.pieces[-1]

    def body(self, time: float) -> Body:
        """Return it as a body of an impact at a time [s]."""
        return Body.of(self.piece.at(time), self.radius, self.mass)


class Run:
    """A simulation under way: the balls, and what is predicted of each and of each pair."""

    def __init__(
        self,
        table: TableModel,
        laws: Laws,
        ids: tuple[int, ...],
        radii: Mapping[int, float],
        masses: Mapping[int, float],
    ) -> None:
        self.laws = laws
        self.cloth = Cloth(laws, (table.length, table.width))
        self.nose_law = nose_law(laws.cushion_law)
        self.pair_law = pair_law(laws.ball_law)
        self.ids = ids
        self.now = 0.0
        self.events: list[Event] = []
        surroundings: dict[float, Surroundings] = {}
        self.balls: list[Ball] = []
        for ball in ids:
            radius = radii.get(ball, table.ball_radius) * laws.diameter_ratio[ball]
            mass = masses.get(ball, table.ball_mass) * laws.mass_ratio[ball]
            if radius not in surroundings:
                surroundings[radius] = Surroundings(table, radius, laws.nose_offset)
            self.balls.append(Ball(radius, mass, surroundings[radius]))
        self.alone = [_NEVER] * len(ids)
        self.pairs = {(i, j): _NEVER for j in range(len(ids)) for i in range(j)}
        self._last_met: dict[tuple[int, int], float] = {}

    def place(self, i: int, state: State) -> None:
        """Let ball ``i`` go on from a state, from now on."""
        ball = self.balls[i]
        ball.playing = True
        piece = self.cloth.piece(state, ball.radius, self.now)
        if ball.pieces and ball.piece.start == self.now:
            ball.pieces.pop()  # it lasted no time
        ball.pieces.append(piece)

    def check_overlaps(self) -> None:
        """Refuse a start with overlaps; FileFormatError names the balls, or the ball and the cushion."""
        for ball_id, ball in zip(self.ids, self.balls, strict=True):
            for nose in ball.surroundings.noses if ball.playing else ():
                depth = ball.surroundings.reach - abs(nose.nearest(ball.piece.state.place) - ball.piece.state.place)
                if depth > FROZEN:
                    raise FileFormatError("start", f"ball {ball_id} is {depth:g} m inside cushion {nose.cushion}")
        for i, j in self.pairs:
            if self.balls[i].playing and self.balls[j].playing and self._gap(i, j) < -FROZEN:
                raise FileFormatError(
                    "start", f"balls {self.ids[i]} and {self.ids[j]} overlap by {-self._gap(i, j):g} m"
                )

    def play(self, horizon: float) -> float:
        """Run to rest and return when that was [s], or NaN at the horizon."""
        for i in range(len(self.balls)):
            self._predict(i)
        for _ in range(_MOST_EVENTS):
            upcoming = self._upcoming()
            if upcoming.time > horizon:
                self.now = horizon
                travelling = any(b.playing and b.piece.phase >= Phase.ROLLING for b in self.balls)
                return math.nan if travelling else self._rest_time()
            self.now = upcoming.time
            for i in self._settle(upcoming):
                self._predict(i)
        raise SimulationError(f"{_MOST_EVENTS} events within {self.now:g} s; the last one was {self.events[-1:]}")

    def _upcoming(self) -> Next:
        """The next event; among those that come together the hardest impact, so that no numbering decides."""
        first = min((*self.alone, *self.pairs.values()), key=lambda e: e.time)
        if first.time == math.inf:
            return first
        due = [e for e in (*self.alone, *self.pairs.values()) if e.time <= first.time + _TOGETHER]
        return max(due, key=self._approach) if len(due) > 1 else first

    def _approach(self, event: Next) -> float:
        if event.kind not in (EventKind.BALL_BALL, EventKind.CUSHION):
            return 0.0
        state = self.balls[event.ball].piece.at(event.time)
        if event.nose is not None:
            away, closing = event.nose.nearest(state.place) - state.place, state.velocity
        else:
            other = self.balls[event.other].piece.at(event.time)
            away, closing = other.place - state.place, state.velocity - other.velocity
        return (away.conjugate() * closing).real / abs(away)

    def _rest_time(self) -> float:
        """When the last ball stopped travelling."""
        stops = [0.0]
        for ball in self.balls:
            moved = [p.start + p.duration for p in ball.pieces if p.phase >= Phase.ROLLING]
            stops.append(moved[-1] if moved and ball.playing else 0.0)
        stops += [event.time for event in self.events]
        return max(stops)

    def _predict(self, i: int) -> None:
        """Work out anew what ball ``i`` will do next, alone and with every other."""
        ball = self.balls[i]
        for j in range(len(self.balls)):
            if j != i:
                pair = (min(i, j), max(i, j))
                self.pairs[pair] = self._meeting(*pair)
        if not ball.playing:
            self.alone[i] = _NEVER
            return
        self.alone[i] = min(self._alone(i), key=lambda e: e.time)

    def _alone(self, i: int) -> list[Next]:
        """What may happen to ball ``i`` without another."""
        ball, piece = self.balls[i], self.balls[i].piece
        left = piece.start + piece.duration - self.now
        found = [Next(self.now + left, Quiet.NEW_PIECE, i, -1)]
        if piece.phase < Phase.ROLLING:
            if ball.over is not None:  # it has come to rest over the drop
                found.append(Next(self.now, EventKind.POCKET, i, ball.over[0]))
            return found
        curve = piece.curve(self.now)
        time, nose = ball.surroundings.first_nose(curve, left)
        if nose is not None:
            found.append(Next(self.now + time, EventKind.CUSHION, i, nose.cushion, nose))
        if ball.over is None:
            time, pocket = ball.surroundings.first_drop(curve, left)
            found.append(Next(self.now + time, Quiet.OVER_DROP, i, pocket))
        else:
            pocket, since = ball.over
            drop = ball.surroundings.drops[pocket]
            time = min(
                drop.falls(curve, left, self.now - since, self.laws.gravity),
                drop.passes_middle(curve, left),
                circle_entry(moved(curve, drop.place), drop.inner, left),
            )
            found.append(Next(self.now + time, EventKind.POCKET, i, pocket))
            found.append(Next(self.now + drop.leaves(curve, left), Quiet.OFF_DROP, i, pocket))
        return found

    def _meeting(self, i: int, j: int) -> Next:
        first, second = self.balls[i], self.balls[j]
        if not (first.playing and second.playing):
            return _NEVER
        p, q = first.piece, second.piece
        if p.phase < Phase.ROLLING and q.phase < Phase.ROLLING:
            return _NEVER
        left = min(p.start + p.duration, q.start + q.duration) - self.now
        seen = difference(p.curve(self.now), q.curve(self.now))
        time = circle_entry(seen, ball_reach(first.radius, second.radius), left)
        return Next(self.now + time, EventKind.BALL_BALL, i, j) if time < math.inf else _NEVER

    def _settle(self, event: Next) -> list[int]:
        """Do what the event does, and return the balls whose motion it changed."""
        i = event.ball
        ball = self.balls[i]
        if event.kind == Quiet.NEW_PIECE:
            self.place(i, ball.piece.end)
            return [i]
        if event.kind == Quiet.OVER_DROP:
            ball.over = event.other, self.now
            return [i]
        if event.kind == Quiet.OFF_DROP and ball.over is not None:
            state, drop = ball.piece.at(self.now), ball.surroundings.drops[event.other]
            velocity = drop.climbs_out(state.place, state.velocity, self.now - ball.over[1], self.laws.gravity)
            self._cut(ball)
            if velocity is None:
                self._drop(i, event.other)
            else:
                ball.over = None
                self.place(i, replace(state, velocity=velocity))
            return [i]
        if event.kind == EventKind.POCKET:
            self._cut(ball)
            self._drop(i, event.other)
            return [i]
        if event.kind == EventKind.CUSHION and event.nose is not None:
            state = ball.piece.at(self.now)
            normal = tilted_normal(event.nose.nearest(state.place) - state.place, ball.surroundings.lift)
            body = ball.body(self.now)
            if self._hops(event):
                struck = body.struck(ball.radius * normal, ball_on_nose(body, normal, event.other, self.laws, True))
            else:
                struck = self.nose_law(body, normal, event.other, self.laws)
                self._record(EventKind.CUSHION, i, event.other)
            self._cut(ball)
            self.place(i, struck.state(state.place))
            return [i]
        return self._collide(event)

    def _collide(self, event: Next) -> list[int]:
        group = self._in_reach(event)
        balls = sorted({ball for pair in group for ball in pair})
        places = [self.balls[k].piece.at(self.now).place for k in balls]
        bodies = [self.balls[k].body(self.now) for k in balls]
        contacts = [(balls.index(a), balls.index(b), self._normal(a, b)) for a, b in group]
        through = None
        if len(group) > 1:
            gaps = [0.0, *(max(self._gap(a, b), 0.0) for a, b in group[1:])]
            through = clusters.blow(bodies, contacts, self.laws, gaps)
        if through is not None and any(through.reached[1:]):
            bodies = through.bodies
            happened = [pair for pair, push in zip(group, through.pushed, strict=True) if push]
        else:
            (a, b, normal), happened = contacts[0], group[:1]
            first, second = bodies[a], bodies[b]
            if self._hops(event):
                happened = []
                impulse = ball_on_ball(first, second, normal, self.laws, True)
                pair = first.struck(first.radius * normal, -impulse), second.struck(-second.radius * normal, impulse)
            else:
                pair = self.pair_law(first, second, normal, self.laws)
            bodies[a], bodies[b] = pair
        for a, b in happened:
            self._record(EventKind.BALL_BALL, a, self.ids[b])
        for k, place, body in zip(balls, places, bodies, strict=True):
            self._cut(self.balls[k])
            self.place(k, body.state(place))
        return balls

    def _hops(self, event: Next) -> bool:
        """Tell whether two bodies that are pressed together only hop on each other: again, and slowly."""
        pair = (event.ball, -1 - event.other if event.nose is not None else event.other)
        before = self._last_met.get(pair, -math.inf)
        self._last_met[pair] = self.now
        return self.now - before < _JUST_BEFORE and self._approach(event) < SLOW

    def _in_reach(self, event: Next) -> list[tuple[int, int]]:
        """The pairs through which the blow of one ball on another may run: theirs, and all that hang together with it.

        What hangs together touches, or has a gap that the blow may close while its first contact lasts.
        """
        i, j = event.ball, event.other
        speed = self._approach(event)
        if speed < SLOW:
            return [(i, j)]
        reach = clusters.neighbourhood(self.balls[i].body(self.now), self.balls[j].body(self.now), speed)
        group, reached = [(i, j)], {i, j}
        while True:
            more = [
                pair
                for pair in self.pairs
                if pair not in group and not reached.isdisjoint(pair) and self._is_within(*pair, reach)
            ]
            if not more:
                return group
            group += more
            reached.update(ball for pair in more for ball in pair)

    def _is_within(self, i: int, j: int, reach: float) -> bool:
        return self.balls[i].playing and self.balls[j].playing and self._gap(i, j) <= reach

    def _gap(self, i: int, j: int) -> float:
        first, second = self.balls[i], self.balls[j]
        apart = abs(second.piece.at(self.now).place - first.piece.at(self.now).place)
        return apart - ball_reach(first.radius, second.radius)

    def _normal(self, i: int, j: int) -> np.ndarray:
        first, second = self.balls[i], self.balls[j]
        plan = second.piece.at(self.now).place - first.piece.at(self.now).place
        return tilted_normal(plan, (second.radius - first.radius) / (second.radius + first.radius))

    def _drop(self, i: int, pocket: int) -> None:
        """Take ball ``i`` out of play."""
        self._record(EventKind.POCKET, i, pocket)
        self.balls[i].pocket, self.balls[i].playing = pocket, False

    def _record(self, kind: EventKind, i: int, other: int) -> None:
        self.events.append(Event(self.now, kind, self.ids[i], other))

    def _cut(self, ball: Ball) -> None:
        """End a ball's piece now."""
        piece = ball.piece
        end = piece.at(self.now)
        ball.pieces[-1] = Piece(
            piece.phase, piece.start, self.now - piece.start, piece.state, piece.bend, piece.twist, piece.fade, end
        )
