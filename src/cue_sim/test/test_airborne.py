"""The model keeps balls on the cloth, and names the impacts and strokes after which they would have left it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from cue_core.balls import BallState
from cue_core.parameters import PARAMETERS, ParameterEstimate, nominal_values
from cue_core.shots import Shot
from cue_core.table import TableModel
from cue_sim.kernel import EventKind
from cue_sim.laws import HOP_HEIGHT
from cue_sim.predict import predict
from cue_sim.strike import lift, strike
from cue_sim.twin import Start, Twin

TABLE = TableModel.load(Path(__file__).parents[3] / "config" / "tables" / "9ft.yaml")
R = TABLE.ball_radius
G = 9.81


def vector(**changes: float) -> np.ndarray:
    values = nominal_values()
    for name, value in changes.items():
        values[list(PARAMETERS).index(name)] = value
    return values


def full_hit(speed: float, topspin: float, parameters: np.ndarray, **extras: object):
    """A cue ball that spins as if it rolled at ``topspin`` times its speed, straight into another ball."""
    start = Start.at_rest(np.array([[-2 * R - 1e-6, 0.0], [0.0, 0.0]]))
    start.velocities[0], start.spins[0] = [speed, 0], [0, topspin * speed / R, 0]
    return Twin(TABLE, (0, 1), extras=extras).simulate(start, parameters, until_contact=1)


def to_the_cushion(speed: float, parameters: np.ndarray, topspin: float = 1.0, **extras: object):
    """A ball straight into the north cushion; with topspin 1 it rolls."""
    start = Start.at_rest(np.array([[0.6, TABLE.width / 2 - TABLE.ball_stop - 1e-6]]))
    start.velocities[0], start.spins[0] = [0, speed], [-topspin * speed / R, 0, 0]
    return Twin(TABLE, (0,), extras=extras).simulate(start, parameters, until_contact=1)


@pytest.mark.parametrize("mu", [0.06, 0.08])
def test_a_rolling_ball_climbs_the_one_it_hits_at_break_speed_only(mu: float) -> None:
    """Friction mu (1 + e)/2 v upwards: 2.8 mm at 3 m/s and the largest friction measured, 0.08."""
    parameters = vector(ball_friction=mu)
    limit = math.sqrt(2 * G * HOP_HEIGHT) / (mu * 0.975)
    assert limit > 3.0
    assert full_hit(0.99 * limit, 1.0, parameters).airborne == ()
    high = full_hit(1.01 * limit, 1.0, parameters)
    assert high.airborne == (0,)
    assert high.contacts(EventKind.AIRBORNE) == 1 and high.contacts(EventKind.BALL_BALL) == 1
    assert [event.kind for event in high.events] == [EventKind.BALL_BALL, EventKind.AIRBORNE]
    assert high.fault is None
    # with draw it is the struck ball that is lifted
    assert full_hit(1.01 * limit, -1.0, parameters).airborne == (1,)
    # a lower limit is met sooner
    assert full_hit(1.0, 1.0, parameters, hop_height=1e-5).airborne[0] == 0


def test_a_ball_struck_down_bounces_as_the_slate_gives_back() -> None:
    limit = math.sqrt(2 * G * HOP_HEIGHT) / (0.06 * 0.975)
    assert full_hit(1.98 * limit, 1.0, vector()).airborne == (0,)
    assert full_hit(2.02 * limit, 1.0, vector()).airborne == (0, 1)
    assert full_hit(1.2 * limit, 1.0, vector(), slate_restitution=1.0).airborne == (0, 1)
    assert full_hit(4 * limit, 1.0, vector(), slate_restitution=0.0).airborne == (0,)


@pytest.mark.parametrize("law", ["coulomb", "han2005", "mathavan2010", "stronge"])
def test_a_nose_above_the_centre_presses_down_and_lifts_nothing(law: str) -> None:
    assert to_the_cushion(5.0, vector(), cushion_law=law).airborne == ()
    # on a slate as lively as that for a slow press as well, it does
    lively = {"cushion_law": law, "nose_slate_restitution": 0.5}
    assert to_the_cushion(5.0, vector(), **lively).airborne == (0,)
    assert to_the_cushion(0.5, vector(), **lively).airborne == ()


def test_much_topspin_climbs_a_cushion_of_much_friction() -> None:
    """Friction upwards, mu cos, against the tilted normal downwards, sin: more only where mu > tan = 0.28.

    A ball that rolls does not climb even then: friction soon ends its slip.
    """
    assert to_the_cushion(4.0, vector(cushion_friction=0.5)).airborne == ()
    assert to_the_cushion(4.0, vector(cushion_friction=0.25), topspin=3.0).airborne == ()
    assert to_the_cushion(4.0, vector(cushion_friction=0.5), topspin=3.0).airborne == (0,)


def test_ordinary_play_stays_on_the_cloth() -> None:
    """Level strokes up to 3 m/s with any spin that does not miscue, six balls: not one airborne event."""
    rng = np.random.default_rng(4)
    twin = Twin(TABLE, (0, 1, 2, 3, 4, 5))
    starts = []
    for _ in range(60):
        cells = rng.permutation(32)[:6]
        half = np.array([TABLE.length, TABLE.width]) / 2 - 0.1
        start = Start.at_rest(np.stack([cells // 4 / 3.5 - 1, cells % 4 / 1.5 - 1], -1) * half)
        angle, size = rng.uniform(0, 2 * math.pi), 0.5 * math.sqrt(rng.uniform())
        side, vertical = size * math.cos(angle), size * math.sin(angle)
        aim = start.positions[1] - start.positions[0]
        azimuth = math.atan2(aim[1], aim[0]) + rng.normal(0, 0.01)
        shot = Shot("s", 2.0, azimuth, side_offset=side, vertical_offset=vertical)
        start.velocities[0], start.spins[0] = strike(nominal_values(), TABLE, shot)
        start.velocities[0] *= min(1.0, 3.0 / np.linalg.norm(start.velocities[0]))
        starts.append(start)
    paths = twin.simulate_batch(starts, nominal_values(), threads=1)
    assert sum(path.contacts(EventKind.BALL_BALL) for path in paths) > 100
    assert [path.airborne for path in paths] == [()] * len(paths)


def test_a_raised_cue_makes_the_ball_jump() -> None:
    """The slate returns half of the downward part of the blow; a level stroke has none."""
    balls = [BallState(0, (-0.5, 0.0), True), BallState(1, (0.5, 0.2), True)]
    twin = Twin(TABLE, (0, 1))
    level, raised = Shot("level", 2.5, 0.0), Shot("raised", 2.5, 0.0, elevation=0.35)
    assert lift(nominal_values(), level) == 0.0
    assert lift(nominal_values(), raised) == pytest.approx(0.5 * 1.73 * 2.5 / math.cos(0.35) ** 2 * math.sin(0.35))
    assert predict(twin, balls, level, ParameterEstimate.nominal()).mean.airborne == ()
    path = predict(twin, balls, raised, ParameterEstimate.nominal()).mean
    assert path.airborne == (0,) and path.events[0] == (0.0, EventKind.AIRBORNE, 0, 0)
    gentle = Shot("gentle", 0.5, 0.0, elevation=0.1)
    assert predict(twin, balls, gentle, ParameterEstimate.nominal()).mean.airborne == ()


def test_an_airborne_event_is_no_contact() -> None:
    """A simulation told to stop at the second contact does so, whatever was lifted at the first."""
    start = Start.at_rest(np.array([[0.5, 0.0], [0.9, 0.0]]))
    start.velocities[0], start.spins[0] = [6.0, 0], [0, 6.0 / R, 0]
    path = Twin(TABLE, (0, 1)).simulate(start, None, until_contact=2)
    assert path.contacts(EventKind.AIRBORNE) == 1
    assert path.contacts(EventKind.BALL_BALL) + path.contacts(EventKind.CUSHION) == 2
