"""The twin on disk: ``twin.json`` is the exact twin, ``twin.xml`` a coarse portable copy for other tools.

``twin.json`` reloads to the same trajectories (to the last bits, in the same MuJoCo version); ``twin.xml`` is plain
MJCF with ordinary soft contacts, which cannot do a Coulomb impact (see ``docs/physics.md``): good to look at and to
start from, not to predict with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from cue_core.balls import BallState
from cue_core.checks import only_keys
from cue_core.errors import FileFormatError
from cue_core.files import write_atomically
from cue_core.parameters import PARAMETERS, ParameterEstimate
from cue_core.table import TableModel
from cue_sim.geometry import contact_tilt
from cue_sim.model import ball_dimensions
from cue_sim.scenery import add_scenery, dress_ball
from cue_sim.twin import Twin

FORMAT = "cue-twin"
VERSION = 1
PORTABLE_STEP = 5e-4
_KEYS = {"format", "version", "table", "balls", "estimate", "steps", "laws_beyond_parameters", "mujoco", "positions_m"}


def twin_to_dict(twin: Twin, estimate: ParameterEstimate, balls: Sequence[BallState] = ()) -> dict[str, Any]:
    """Return everything that a trajectory depends on, and where the parameters come from, as plain data."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "mujoco": mujoco.mj_versionString(),
        "table": twin.table.to_dict(),
        "balls": [
            {"id": ball, "radius_m": float(radius), "mass_kg": float(mass)}
            for ball, radius, mass in zip(twin.ball_ids, twin.layout.radius, twin.layout.mass, strict=True)
        ],
        "positions_m": {str(b.ball_id): [float(v) for v in b.position] for b in balls if b.in_play},
        "estimate": estimate.to_dict(),
        "steps": {"policy": "event-aligned", "largest_s": twin.largest_step, "impact_s": twin.impact_step},
        "laws_beyond_parameters": {k: list(v) if isinstance(v, tuple) else v for k, v in twin.extras.items()},
    }


def twin_from_dict(data: Mapping[str, Any], where: object = "twin") -> tuple[Twin, ParameterEstimate]:
    """Read back what :func:`twin_to_dict` wrote.

    Raises:
        FileFormatError: another format, version or MuJoCo, a missing or malformed field.
        CueError: a value out of range.
    """
    if data.get("format") != FORMAT or data.get("version") != VERSION:
        raise FileFormatError(
            where, f"is format {data.get('format')!r} version {data.get('version')!r}, needs {FORMAT!r} {VERSION}"
        )
    only_keys(where, data, _KEYS)
    try:
        if data["mujoco"] != mujoco.mj_versionString():
            raise FileFormatError(
                where,
                f"was made with MuJoCo {data['mujoco']}, this is {mujoco.mj_versionString()}: results would differ",
            )
        extras = {k: tuple(v) if isinstance(v, list) else v for k, v in data["laws_beyond_parameters"].items()}
        twin = Twin(
            TableModel.from_dict(data["table"]),
            [int(b["id"]) for b in data["balls"]],
            radii={int(b["id"]): float(b["radius_m"]) for b in data["balls"]},
            masses={int(b["id"]): float(b["mass_kg"]) for b in data["balls"]},
            largest_step=float(data["steps"]["largest_s"]),
            impact_step=float(data["steps"]["impact_s"]),
            extras=extras,
        )
        return twin, ParameterEstimate.from_dict(data["estimate"])
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(where, f"malformed twin: {type(error).__name__} {error}") from None


def save_twin(path: Path | str, twin: Twin, estimate: ParameterEstimate, balls: Sequence[BallState] = ()) -> None:
    """Write ``twin.json``.

    Raises:
        FileFormatError: it cannot be written.
    """
    write_atomically(path, json.dumps(twin_to_dict(twin, estimate, balls), indent=1) + "\n")


def load_twin(path: Path | str) -> tuple[Twin, ParameterEstimate]:
    """Read ``twin.json``.

    Raises:
        FileFormatError: it is missing or malformed.
    """
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise FileFormatError(path, f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise FileFormatError(path, f"is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise FileFormatError(path, "holds no JSON object")
    return twin_from_dict(data, path)


def portable_spec(
    table: TableModel, ball_ids: Sequence[int], estimate: ParameterEstimate, balls: Sequence[BallState] = ()
) -> mujoco.MjSpec:
    """Return plain MJCF of the table: free balls, ordinary contacts with the estimate's friction and restitution.

    Cushions are upright faces at the ball's height, with the rebound that the tilted nose gives: a nose edge in soft
    contact would press the ball into the cloth and make it hop.
    """
    radius, mass = ball_dimensions(table, ball_ids)
    value = dict(zip(PARAMETERS, map(float, estimate.values), strict=True))
    rebound = max((1 + value["cushion_restitution"]) * np.cos(contact_tilt(table)) ** 2 - 1, 0.0)
    spec = mujoco.MjSpec()
    spec.modelname = f"{table.name}_portable"
    spec.comment = (
        "Coarse portable approximation of a calibrated table: soft contacts bias every sliding impact. "
        "The exact twin is twin.json."
    )
    spec.option.timestep = PORTABLE_STEP
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10
    spec.option.gravity = [9.81 * value["tilt_x"], 9.81 * value["tilt_y"], -9.81]
    spec.add_text(name="cue_portable_approximation", data="coarse: soft contacts; exact twin: twin.json of cue_sim")
    spec.add_text(name="cue_data_hash", data=estimate.data_hash or "none")
    spec.add_numeric(name="cue_revision", data=[float(estimate.revision)], size=1)
    for name, number in value.items():
        spec.add_numeric(name=name, data=[number], size=1)
    add_scenery(spec, table)
    spec.worldbody.add_geom(
        name="cloth", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 0.1], contype=0, conaffinity=0, group=3
    )
    walls = _add_walls(spec, table)
    where = {b.ball_id: b.position for b in balls if b.in_play}
    names: list[str] = []
    for k, ball in enumerate(ball_ids):
        default = np.array([-0.4 + 0.8 * (k % 8) / 8, -0.3 + 0.3 * (k // 8)]) * [table.length, table.width]
        x, y = where.get(ball, default)
        body = spec.worldbody.add_body(name=f"ball_{ball}", pos=[float(x), float(y), float(radius[k])])
        body.add_freejoint()
        body.add_geom(
            name=f"ball_{ball}",
            type=mujoco.mjtGeom.mjGEOM_SPHERE,
            size=[float(radius[k]), 0, 0],
            mass=float(mass[k]),
            contype=0,
            conaffinity=0,
        )
        dress_ball(spec, body, ball, float(radius[k]))
        spin = 0.4 * float(radius[k]) ** 2 * value["spinning_deceleration"] / 9.81
        roll = float(radius[k]) * value["rolling_friction"]
        slide = value["sliding_friction"]
        _pair(spec, f"ball_{ball}", "cloth", [slide, slide, spin, roll, roll], [-1e4, -300], 6)
        for wall in walls:
            _pair(spec, f"ball_{ball}", wall, [value["cushion_friction"]] * 2 + [0] * 3, _one_step(rebound), 3)
        for other in names:
            _pair(
                spec,
                f"ball_{ball}",
                other,
                [value["ball_friction"]] * 2 + [0] * 3,
                _one_step(value["ball_restitution"]),
                3,
            )
        names.append(f"ball_{ball}")
    return spec


def _one_step(restitution: float) -> list[float]:
    # damping alone, undone within one step: the one direct form of a coefficient of restitution in soft contacts
    return [0.0, -(1 + restitution) / PORTABLE_STEP]


def _pair(
    spec: mujoco.MjSpec, first: str, second: str, friction: Sequence[float], solref: Sequence[float], condim: int
) -> None:
    spec.add_pair(
        name=f"{first}-{second}",
        geomname1=first,
        geomname2=second,
        condim=condim,
        friction=list(friction),
        solref=list(solref),
        solimp=[0.9999, 0.9999, 0.001, 0.5, 2] if condim == 3 else [0.99, 0.99, 0.001, 0.5, 2],
    )


def _add_walls(spec: mujoco.MjSpec, table: TableModel) -> list[str]:
    names = []
    thick, inset = 0.02, table.ball_radius - table.ball_stop
    for cushion in table.cushions:
        centre = (cushion.start + cushion.end) / 2 + (inset - thick) * cushion.normal
        along = np.abs(cushion.end - cushion.start) / 2
        half = along + thick * np.abs(cushion.normal)
        name = f"wall_{cushion.name}"
        spec.worldbody.add_geom(
            name=name,
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=[*centre, table.ball_radius],
            size=[*half, 0.5 * table.ball_radius],
            contype=0,
            conaffinity=0,
            group=3,
        )
        names.append(name)
    return names


def save_portable(
    path: Path | str,
    table: TableModel,
    ball_ids: Sequence[int],
    estimate: ParameterEstimate,
    balls: Sequence[BallState] = (),
) -> None:
    """Write ``twin.xml``; it compiles on its own, without other files.

    Raises:
        FileFormatError: it cannot be written.
    """
    spec = portable_spec(table, ball_ids, estimate, balls)
    spec.compile()
    write_atomically(path, spec.to_xml())
