"""The twin for other tools: plain MJCF of free balls with ordinary contacts, which stock MuJoCo loads and steps.

A soft contact with friction cannot do a Coulomb impact: what slips is also pushed apart. So normal force and friction
are kept apart here. One contact is hard and smooth and carries the load; beside it lies a *soft* one with friction,
whose normal force hardly depends on what slips, because a soft contact answers to its depth and approach alone:

- ball on ``cloth``: hard, smooth. Skin on ``nap``, a plane a little above: presses with a set share of the weight, has
  the friction of sliding and rolling. Ball on ``nap``: another share, has the friction of upright spin, which in one
  contact with rolling would take turns with it.
- ball on a nose: hard, smooth, gives back its restitution within one step. Skin on the nose: soft, presses with a set
  share of the blow, has the cushion's friction.
- ball on ball: one contact; its friction ends at most a share of the slip (``grip``), which keeps the push small.

``skin_<id>`` is a weightless sphere on ``ball_<id>``. The bed ends at the drops: a ball whose centre is below z = 0 is
pocketed; it comes to rest on the tray inside the table. What the parameters are is found by
:mod:`cue_sim.portable_fit`.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from cue_core.balls import BallState
from cue_core.errors import FileFormatError
from cue_core.files import write_atomically
from cue_core.parameters import PARAMETERS, ParameterEstimate
from cue_core.table import TableModel
from cue_core.terms import places
from cue_sim.model import add_noses, ball_dimensions
from cue_sim.scenery import add_scenery, dress_ball

PORTABLE_STEP = 5e-4
"""Time step [s]; the contacts that act within one step depend on it."""
STATEMENT = "cue_portable"
"""Name of the text in the file that says how the copy was made and how far off it is: JSON without its quotes."""
_GRAVITY = 9.81
_DEPTH = 5e-4  # m: how far the nap stands above the cloth
_SLIDING_SHARE, _SPINNING_SHARE = 0.4, 0.3  # of the weight, by which a ball presses on the nap
_SLIDING_SOFTNESS, _SPINNING_SOFTNESS = 0.002, 0.5  # impedances: the smaller, the less slip pushes the ball up
_SLIDING_RATE, _SPINNING_RATE = 80.0, 4.0  # 1/s: slower than this, slip ends like in honey, not by Coulomb's law
_RUBBER_SHARE, _RUBBER_SOFTNESS = 0.5, 0.05
_NAP_DAMPING = 100.0  # 1/s
_IMPEDANCE_RATIO = 1e5  # friction far harder than the normal force, or soft contacts would hardly slow a roll
_RIGID = 0.9999
_UNSEEN = (0.0, 0.0, 0.0, 0.0)  # rgba: the scenery shows cloth and rubber, also where a viewer knows no groups
_LEAST = 1e-6  # friction coefficient that stands for none; MuJoCo takes no zero


@dataclass(frozen=True)
class PortableParameters:
    """Coefficients of the portable copy's contacts.

    They mean what the twin's parameters of these names mean, but a copy that behaves alike has other values.

    Attributes:
        sliding_friction: ball on cloth.
        rolling_friction: rolling deceleration / g times 7/5.
        spinning_deceleration: of spin about the vertical [rad/s^2].
        ball_restitution: between balls.
        ball_friction: between balls.
        ball_grip: largest share of the slip that friction between balls ends.
        cushion_restitution: along the normal at the nose.
        cushion_friction: at the nose.
        cushion_grip: largest share of the slip that friction at the nose ends.
    """

    sliding_friction: float
    rolling_friction: float
    spinning_deceleration: float
    ball_restitution: float
    ball_friction: float
    ball_grip: float
    cushion_restitution: float
    cushion_friction: float
    cushion_grip: float

    @classmethod
    def unfitted(cls, estimate: ParameterEstimate) -> PortableParameters:
        """Return the twin's own values: where a fit starts."""
        value = dict(zip(PARAMETERS, map(float, estimate.values), strict=True))
        shared = {name: value[name] for name in cls.__dataclass_fields__ if name in value}
        return cls(**shared, ball_grip=0.5, cushion_grip=1.0)


def portable_spec(
    table: TableModel,
    ball_ids: Sequence[int],
    estimate: ParameterEstimate,
    balls: Sequence[BallState] = (),
    *,
    parameters: PortableParameters | None = None,
    statement: Mapping[str, Any] | None = None,
    radii: Mapping[int, float] | None = None,
    masses: Mapping[int, float] | None = None,
    visual: bool = True,
) -> mujoco.MjSpec:
    """Return plain MJCF of the table.

    Args:
        table: geometry.
        ball_ids: of the balls.
        estimate: of the twin; the file names its parameters, and has its tilt, noses, and sizes and masses of balls.
        balls: where they lie; others lie somewhere on the table.
        parameters: of the contacts; None = the twin's own.
        statement: what the file says of itself; see :func:`read_statement`.
        radii: of single balls [m].
        masses: of single balls [kg].
        visual: add what the table looks like.

    Raises:
        CueError: the balls make no sense.
    """
    radius, mass = ball_dimensions(table, ball_ids, radii, masses)
    radius, mass = radius * ratios(estimate, "ball_diameter", ball_ids), mass * ratios(estimate, "ball_mass", ball_ids)
    parameters = parameters or PortableParameters.unfitted(estimate)
    spec = mujoco.MjSpec()
    spec.modelname = f"{table.name}_portable"
    _set_options(spec, estimate)
    _describe(spec, estimate, parameters, statement)
    if visual:
        add_scenery(spec, table)
    _add_bed(spec, table)
    noses = add_noses(spec, table, estimate.values[places("noses")].tolist(), mass=0, rgba=_UNSEEN)
    where = {b.ball_id: b.position for b in balls if b.in_play}
    for k, ball in enumerate(ball_ids):
        default = np.array([-0.4 + 0.8 * (k % 8) / 8, -0.3 + 0.3 * (k // 8)]) * [table.length, table.width]
        x, y = where.get(ball, default)
        size = float(radius[k])
        body = spec.worldbody.add_body(name=f"ball_{ball}", pos=[float(x), float(y), size])
        body.add_freejoint()
        for name, weight in ((f"ball_{ball}", float(mass[k])), (f"skin_{ball}", 0.0)):
            body.add_geom(
                name=name,
                type=mujoco.mjtGeom.mjGEOM_SPHERE,
                size=[size, 0, 0],
                mass=weight,
                # a ball meets what is added to the model, and the tray, but other balls, cloth and noses in pairs only
                contype=1 if weight else 0,
                conaffinity=0,
                group=0 if weight else 3,
                rgba=[0.5, 0.5, 0.5, 1.0] if weight else _UNSEEN,
            )
        if visual:
            dress_ball(spec, body, ball, size)
        _add_cloth_pairs(spec, ball, size, parameters)
        for nose in noses:
            _add_nose_pairs(spec, ball, nose, parameters)
        for other in ball_ids[:k]:
            _add_ball_pair(spec, ball, other, parameters)
    return spec


def ratios(estimate: ParameterEstimate, term: str, ball_ids: Sequence[int]) -> np.ndarray:
    """Return the (n,) ratios that a term of balls has, "ball_mass" or "ball_diameter"."""
    return estimate.values[places(term)][list(ball_ids)]


def save_portable(
    path: Path | str,
    table: TableModel,
    ball_ids: Sequence[int],
    estimate: ParameterEstimate,
    balls: Sequence[BallState] = (),
    **choices: Any,
) -> None:
    """Write ``twin.xml``; it compiles on its own, without other files. See :func:`portable_spec`.

    Raises:
        FileFormatError: it cannot be written.
    """
    spec = portable_spec(table, ball_ids, estimate, balls, **choices)
    spec.compile()
    write_atomically(path, spec.to_xml())


def read_statement(path: Path | str) -> dict[str, Any]:
    """Return what a ``twin.xml`` says of itself.

    Returns:
        ``fitted`` (bool), ``parameters`` of the contacts; for a fitted one also what
        :meth:`cue_sim.portable_fit.PortableFit.to_dict` returns.

    Raises:
        FileFormatError: it is missing, or no portable twin.
    """
    try:
        root = ElementTree.parse(path).getroot()
    except OSError as error:
        raise FileFormatError(path, f"cannot be read: {error.strerror}") from None
    except ElementTree.ParseError as error:
        raise FileFormatError(path, f"is not XML: {error}") from None
    text = root.find(f"./custom/text[@name='{STATEMENT}']")
    if text is None:
        raise FileFormatError(path, f"has no text {STATEMENT!r}: not a portable twin of this version")
    try:
        data: dict[str, Any] = json.loads(re.sub(r"([\w+-]+):", r'"\1":', text.get("data", "")))
    except ValueError as error:
        raise FileFormatError(path, f"has a malformed text {STATEMENT!r}: {error}") from None
    return data


def _set_options(spec: mujoco.MjSpec, estimate: ParameterEstimate) -> None:
    value = dict(zip(PARAMETERS, map(float, estimate.values), strict=True))
    option = spec.option
    option.timestep = PORTABLE_STEP
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.impratio = _IMPEDANCE_RATIO
    option.gravity = [_GRAVITY * value["tilt_x"], _GRAVITY * value["tilt_y"], -_GRAVITY]


def _describe(
    spec: mujoco.MjSpec,
    estimate: ParameterEstimate,
    parameters: PortableParameters,
    statement: Mapping[str, Any] | None,
) -> None:
    data = {"fitted": statement is not None, "parameters": asdict(parameters), **(statement or {})}
    if statement is None:
        distance = "Its contacts have the twin's own coefficients, not yet fitted: how far it is off is not known."
    else:
        rows = (
            f"{name} contact{'' if name == '1' else 's'}: {row['median_mm']:.1f} (90 % below {row['p90_mm']:.0f})"
            for name, row in statement["difference"].items()
        )
        distance = "Median difference of rest positions to the twin [mm]: " + "; ".join(rows) + "."
    spec.comment = (
        "Portable copy of a calibrated table, made for stock MuJoCo; the exact twin is twin.json. "
        f"Keep the time step: contacts depend on it. A ball below z = 0 is pocketed. {distance}"
    )
    # without quotes: MuJoCo would write it as CDATA, which its earlier versions do not read
    spec.add_text(name=STATEMENT, data=json.dumps(data).replace('"', ""))
    spec.add_text(name="cue_data_hash", data=estimate.data_hash or "none")
    spec.add_numeric(name="cue_revision", data=[float(estimate.revision)], size=1)
    for name, number in zip(PARAMETERS, estimate.values, strict=True):
        if name in estimate.listed:
            spec.add_numeric(name=name, data=[float(number)], size=1)
    for name, row in (statement or {}).get("difference", {}).items():
        key = name.replace("-", "_").replace("+", "_or_more")
        numbers = [float(row["median_mm"]), float(row["p90_mm"])]
        spec.add_numeric(name=f"cue_portable_mm_{key}_contacts", data=numbers, size=2)


def _add_bed(spec: mujoco.MjSpec, table: TableModel) -> None:
    """Add cloth and nap, which end at the drops, and below and around them what catches balls."""
    for name, height in (("cloth", 0.0), ("nap", _DEPTH)):
        if table.pocketless:
            shape: dict[str, Any] = {"type": mujoco.mjtGeom.mjGEOM_PLANE, "size": [0, 0, 0.1], "pos": [0, 0, height]}
        else:
            outline = bed_outline(table)
            thickness = 0.5 * table.ball_radius
            corners = [[*corner, z] for z in (height, height - thickness) for corner in outline]
            spec.add_mesh(name=name, uservert=np.array(corners, float).ravel())
            shape = {"type": mujoco.mjtGeom.mjGEOM_MESH, "meshname": name}
        spec.worldbody.add_geom(name=name, contype=0, conaffinity=0, mass=0, group=3, rgba=_UNSEEN, **shape)
    catch: dict[str, Any] = {"contype": 0, "conaffinity": 1, "mass": 0, "condim": 6, "priority": 1}
    catch |= {"group": 3, "rgba": _UNSEEN}
    floor = -4 * table.ball_radius
    spec.worldbody.add_geom(
        name="tray",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        pos=[0, 0, floor],
        size=[0, 0, 0.1],
        friction=[1.0, 0.002, 0.002],
        **catch,
    )
    out_x, out_y = table.length / 2 + table.rail_width, table.width / 2 + table.rail_width
    top, thick = table.nose_height + 0.15 * table.ball_radius, 0.02
    for name, x, y in (("east", 1, 0), ("north", 0, 1), ("west", -1, 0), ("south", 0, -1)):
        spec.worldbody.add_geom(
            name=f"frame_{name}",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=[x * (out_x + thick), y * (out_y + thick), (floor + top) / 2],
            size=[thick if x else out_x, thick if y else out_y, (top - floor) / 2],
            friction=[0.3, 0.002, 0.002],
            **catch,
        )


def bed_outline(table: TableModel) -> np.ndarray:
    """Return the (8, 2) corners [m] of the slate between the drops: a rectangle without its corners."""
    x, y = table.length / 2, table.width / 2 + table.side_shelf
    pocket = table.pockets[0]  # a corner: all four are alike
    reach = float(np.abs(pocket.position).sum()) - np.sqrt(2) * pocket.radius  # |x| + |y| at the drop's near edge
    return np.array(
        [[a * u, b * v] for a, b in ((1, 1), (-1, 1), (-1, -1), (1, -1)) for u, v in ((x, reach - x), (reach - y, y))]
    )


def _add_cloth_pairs(spec: mujoco.MjSpec, ball: int, radius: float, parameters: PortableParameters) -> None:
    _pair(spec, f"ball_{ball}", "cloth", solref=[-3e4, -350], impedance=0.99)
    rolling = radius * parameters.rolling_friction / _SLIDING_SHARE
    sliding = parameters.sliding_friction / _SLIDING_SHARE
    spinning = 0.4 * radius**2 * parameters.spinning_deceleration / _GRAVITY / _SPINNING_SHARE
    for first, friction, share, softness, rate in (
        ("skin", [sliding, sliding, 0, rolling, rolling], _SLIDING_SHARE, _SLIDING_SOFTNESS, _SLIDING_RATE),
        ("ball", [0, 0, spinning, 0, 0], _SPINNING_SHARE, _SPINNING_SOFTNESS, _SPINNING_RATE),
    ):
        # A soft contact at this depth presses with stiffness * depth / (1 - impedance), per mass.
        stiffness = share * _GRAVITY * (1 - softness) / _DEPTH
        _pair(
            spec,
            f"{first}_{ball}",
            "nap",
            friction=friction,
            solref=[-stiffness, -_NAP_DAMPING],
            solreffriction=[0, -rate * softness],
            impedance=softness,
            condim=6 if first == "skin" else 4,
        )


def _add_nose_pairs(spec: mujoco.MjSpec, ball: int, nose: str, parameters: PortableParameters) -> None:
    restitution, soft = parameters.cushion_restitution, _RUBBER_SOFTNESS
    _pair(spec, f"ball_{ball}", nose, solref=_one_step(restitution))
    # The hard contact turns the approach v into -e v within the step. The soft one, whose damping asks for more than
    # that, presses with the excess: this makes its share of the blow.
    damping = (1 + restitution) * (1 + _RUBBER_SHARE * (1 - soft) / soft) / PORTABLE_STEP
    _pair(
        spec,
        f"skin_{ball}",
        nose,
        friction=[parameters.cushion_friction / _RUBBER_SHARE] * 2 + [0] * 3,
        solref=[0, -damping * soft],
        solreffriction=[0, -parameters.cushion_grip * soft / PORTABLE_STEP],
        impedance=soft,
        condim=3,
    )


def _add_ball_pair(spec: mujoco.MjSpec, ball: int, other: int, parameters: PortableParameters) -> None:
    _pair(
        spec,
        f"ball_{ball}",
        f"ball_{other}",
        friction=[parameters.ball_friction] * 2 + [0] * 3,
        solref=_one_step(parameters.ball_restitution),
        solreffriction=[0, -parameters.ball_grip / PORTABLE_STEP],
        condim=3,
    )


def _one_step(restitution: float) -> list[float]:
    # damping alone, undone within one step: the one direct form of a coefficient of restitution in soft contacts
    return [0.0, -(1 + restitution) / PORTABLE_STEP]


def _pair(
    spec: mujoco.MjSpec,
    first: str,
    second: str,
    *,
    solref: Sequence[float],
    friction: Sequence[float] = (0.0,) * 5,
    solreffriction: Sequence[float] = (0.0, 0.0),
    impedance: float = _RIGID,
    condim: int = 1,
) -> None:
    spec.add_pair(
        name=f"{first}-{second}",
        geomname1=first,
        geomname2=second,
        condim=condim,
        friction=[max(float(f), _LEAST) for f in friction],
        solref=list(solref),
        solreffriction=list(solreffriction),
        solimp=[impedance, impedance, 0.001, 0.5, 2],
    )
