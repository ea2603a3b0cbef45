"""The world's MuJoCo model: the table with its balls, the robot beside it, and what they may touch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cue_core.parameters import PARAMETERS
from cue_sim.model import build_spec
from cue_sim.robot import TIP_GEOM, ElasticTip, add_robot
from cue_sim.shapes import add_box
from cue_sim.world_config import WorldConfig

_ROBOT = 2  # collision bit: the robot meets table and balls, they do not meet each other through it


def build_world(world: WorldConfig) -> Any:
    """Return the compiled ``mujoco.MjModel`` of a world, in the table frame."""
    table = world.table
    spec = build_spec(table, world.ball_ids, visual=False)
    tip = ElasticTip(table.ball_mass / world.tip.end_mass_ratio, world.tip.swing, world.tip.swing_damping)
    add_robot(spec, world.robot, table, tip)
    out = np.array([table.length, table.width]) / 2 + table.rail_width
    add_box(spec, [-out[0], -out[1], -0.05], [out[0], out[1], 0.0], name="table/bed")
    inner = np.array([table.length, table.width]) / 2 + 0.3 * table.rail_width
    for sign, name in ((1.0, "north"), (-1.0, "south")):
        low, high = sorted((sign * inner[1], sign * out[1]))
        add_box(spec, [-out[0], low, 0.0], [out[0], high, table.nose_height], name=f"table/rail_{name}")
    for sign, name in ((1.0, "east"), (-1.0, "west")):
        low, high = sorted((sign * inner[0], sign * out[0]))
        add_box(spec, [low, -out[1], 0.0], [high, out[1], table.nose_height], name=f"table/rail_{name}")
    for body in spec.bodies:
        for geom in body.geoms:
            if geom.name.startswith("robot/"):
                geom.contype = _ROBOT
            elif geom.name.startswith(("table/", "nose_", "ball_")):
                geom.conaffinity = _ROBOT
    # The base stands beside the table by construction; its pedestal never moves.
    spec.geom("robot/pedestal").contype = 0
    stiffness, damping = tip_contact(world)
    for ball_id in world.ball_ids:
        spec.add_pair(
            name=f"tip-{ball_id}",
            geomname1=TIP_GEOM,
            geomname2=f"ball_{ball_id}",
            condim=3,
            friction=[world.tip.friction, world.tip.friction, 0, 0, 0],
            solref=[-stiffness, -damping],
            solimp=[0.9999, 0.9999, 0.001, 0.5, 2],
        )
    return spec.compile()


def tip_contact(world: WorldConfig) -> tuple[float, float]:
    """Return stiffness [1/s^2] and damping [1/s] per unit mass of the tip's contact.

    A spring and damper that push only, so that tip and ball part after about ``tip.contact_time`` with the restitution
    asked for. Found by bisection on the very steps that the simulation makes, since a formula for continuous time would
    be off by the steps.
    """
    wanted = float(world.parameters[list(PARAMETERS).index("tip_restitution")])
    stiffness = (math.pi / world.tip.contact_time) ** 2
    low, high = 0.0, 4.0 * math.sqrt(stiffness)
    for _ in range(60):
        damping = 0.5 * (low + high)
        if _restitution(stiffness, damping, world.steps.contact) > wanted:
            low = damping
        else:
            high = damping
    return stiffness, 0.5 * (low + high)


def _restitution(stiffness: float, damping: float, step: float) -> float:
    """Return the ratio of speeds after and before, averaged over where between two steps the contact begins."""
    gap = -step * (np.arange(8) + 0.5) / 8  # after the last free step at unit speed
    speed = np.full(8, -1.0)
    for _ in range(100_000):
        push = np.where(gap < 0, np.maximum(-damping * speed - stiffness * gap, 0.0), 0.0)
        speed = speed + step * push
        gap = gap + step * speed
        if np.all((gap >= 0) & (speed >= 0)):
            break
    return float(speed.mean())
