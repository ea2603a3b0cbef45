"""The native kernel: exact billiards laws around MuJoCo's step (``native/``), its layout, laws and one call.

>>> layout = Layout.of(model, table, ball_ids)
>>> advance(model, data, layout, Laws.from_parameters(vector), in_play, until=0.5)
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import NamedTuple

import mujoco
import numpy as np

from cue_core.errors import FileFormatError
from cue_core.table import TableModel
from cue_sim.geometry import cushion_index, nose_segments
from cue_sim.laws import KernelError, Laws
from cue_sim.laws.library import load
from cue_sim.structures import BYTE, DOUBLE, INT, LayoutStruct, Options, Record, pointer

LARGEST_STEP = 0.2
"""Default largest step of the event-aligned loop [s]: motion between events is in closed form, whatever the step."""
LONGEST_STEP = 1.0
"""Longest step that a twin may be asked to make [s]."""
IMPACT_STEP = 2e-6
"""Default step in which an impact happens [s]."""
MAX_BALLS = 32


class EventKind(IntEnum):
    """What happened; values equal ``native/cue_kernel.h``.

    The model keeps balls on the cloth. ``AIRBORNE`` names what it cannot do: an impact whose vertical impulse P would
    have thrown the ball higher than ``Laws.hop_height``, (P/m)^2 / (2 g). Upward impulses come from friction at the
    contact (a ball with topspin climbs the one it strikes full; with very much of it, a cushion of much friction), and
    from the slate as far as it gives a downward one back (``Laws.slate_restitution``); a raised cue strikes the ball
    down, too (``Start.lifts``). The ball's path is simulated as if it had stayed down.
    """

    BALL_BALL = 1
    CUSHION = 2
    POCKET = 3
    AIRBORNE = 4


class Event(NamedTuple):
    """One event: time [s], kind, ball id, and the other ball's id, cushion's index or pocket's index (else 0)."""

    time: float
    kind: EventKind
    ball: int
    other: int


REST, BAD_LAWS = 1, -7
"""Statuses: every ball rests; the laws were refused."""
FAULTS = {
    -1: "not finite",
    -2: "energy gain",
    -3: "escape",
    -4: "too many steps",
    -5: "too many contacts",
    -6: "bad start",
    -7: "bad parameters",
}
"""Names of the kernel's faults. A bad start is one faster than 100 m/s or 10^4 rad/s, or more than two
diameters behind the nose lines."""
_WARNING = -10
_WARNINGS = {
    "INERTIA": "nearly singular inertia",
    "CONTACTFULL": "contact buffer full",
    "CNSTRFULL": "constraint buffer full",
    "BADQPOS": "bad position",
    "BADQVEL": "bad velocity",
    "BADQACC": "bad acceleration",
    "BADCTRL": "bad control",
}


def fault(status: int) -> str | None:
    """Return the name of a fault, MuJoCo's own warnings included; None = no fault."""
    if status <= _WARNING:
        name = mujoco.mjtWarning(_WARNING - status).name.removeprefix("mjWARN_")
        return f"MuJoCo: {_WARNINGS.get(name, name.lower())}"
    return FAULTS.get(status)


@cache
def library() -> ctypes.CDLL:
    """Load the kernel, once, and check that it fits this Python package and this MuJoCo.

    Raises:
        KernelError: it is missing, or was built for another version.
    """
    kernel = load()
    built, loaded = kernel.cue_mujoco_version_built(), kernel.cue_mujoco_version_loaded()
    if built != loaded or loaded != mujoco.mj_version():
        raise KernelError(
            f"the kernel was built for MuJoCo {built} and runs in {loaded}; "
            f"needs MuJoCo {mujoco.mj_version()}; run: make setup"
        )
    kernel.cue_start.restype = None
    kernel.cue_start.argtypes = [ctypes.c_void_p] * 7
    kernel.cue_advance.restype = ctypes.c_int
    kernel.cue_advance.argtypes = [ctypes.c_void_p] * 7
    kernel.cue_separate.argtypes = [ctypes.c_void_p] * 3
    kernel.cue_work.argtypes = [ctypes.c_void_p] * 4
    return kernel


class Layout:
    """Where balls and noses live in a compiled model that may hold other bodies too.

    Attributes:
        ball_ids: in the order of every ball axis.
        qpos: (n,) address of x in ``data.qpos``; y, then the quaternion wxyz follow.
        dof: (n,) address of vx in ``data.qvel``; vy, then the angular velocity in the *ball's* frame follow.
        body: (n,) body ids.
        radius: (n,) [m]; ``mass``: (n,) [kg].
        pocket_positions: (6, 2) [m]; (0, 2) on a table without pockets.
        segments: (S, 4) axes of the nose and jaw capsules, start xy and end xy [m]; S is 18, or 4 without pockets.
        reach: (S, n) distance in plan view from the axis to the centre of a touching ball [m].
    """

    def __init__(self, model: mujoco.MjModel, table: TableModel, ball_ids: Sequence[int]) -> None:
        """Look everything up by name; see :meth:`of`."""
        if len(ball_ids) > MAX_BALLS:
            raise FileFormatError("balls", f"are {len(ball_ids)}, at most {MAX_BALLS} allowed")
        self.table = table
        self.ball_ids = tuple(int(b) for b in ball_ids)
        n = len(self.ball_ids)
        bodies = [model.body(f"ball_{b}") for b in self.ball_ids]
        joints = [model.joint(f"ball_{b}_x") for b in self.ball_ids]
        geoms = [model.geom(f"ball_{b}").id for b in self.ball_ids]
        self.body = np.array([b.id for b in bodies], np.int32)
        self.qpos = np.array([j.qposadr[0] for j in joints], np.int32)
        self.dof = np.array([j.dofadr[0] for j in joints], np.int32)
        self.radius = np.array([model.geom_size[g, 0] for g in geoms])
        self.mass = np.array([model.body_mass[b] for b in self.body])
        self.pocket_positions = np.array([p.position for p in table.pockets]).reshape(-1, 2)

        segments = nose_segments(table)
        cushions = cushion_index(table)
        self._role = np.full(model.ngeom, -1, np.int32)
        self._role[geoms] = np.arange(n)
        self.segments = np.array([[*start, *end] for _name, start, end in segments.values()])
        self._cushion = np.array([cushions[c] for c, _start, _end in segments.values()], np.int32)
        self.reach = np.empty((len(segments), n))
        for s, name in enumerate(segments):
            nose = model.geom(name).id
            self._role[nose] = n + s
            above = model.geom_pos[nose, 2] - self.radius
            self.reach[s] = np.sqrt((self.radius + model.geom_size[nose, 0]) ** 2 - above**2)
        tips = np.array([tip for c in table.cushions for tip in (c.start, c.end)])
        mouths = [np.linalg.norm(tips - p.position, axis=1).min() + 0.5 * table.ball_radius for p in table.pockets]
        self._pocket = np.array(
            [[*p.position, p.radius, mouth] for p, mouth in zip(table.pockets, mouths, strict=True)]
        ).reshape(-1, 4)
        self._stop = np.array([self.stop(i) for i in range(n)])
        self._line = np.array([[*c.start, *c.end, *c.normal] for c in table.cushions], float)
        self._keep_made(model, geoms, [model.geom(name).id for name in segments])
        self._struct = LayoutStruct(
            balls=n,
            segments=len(segments),
            pockets=len(self._pocket),
            geoms=model.ngeom,
            body=pointer(self.body, INT),
            qpos=pointer(self.qpos, INT),
            dof=pointer(self.dof, INT),
            radius=pointer(self.radius, DOUBLE),
            mass=pointer(self.mass, DOUBLE),
            role=pointer(self._role, INT),
            segment=pointer(self.segments, DOUBLE),
            reach=pointer(self.reach, DOUBLE),
            cushion=pointer(self._cushion, INT),
            pocket=pointer(self._pocket, DOUBLE),
            half_length=table.length / 2,
            half_width=table.width / 2,
            stop=pointer(self._stop, DOUBLE),
            line=pointer(self._line, DOUBLE),
            lines=len(self._line),
            ball_id=pointer(self._ball_id, INT),
            ball_geom=pointer(self._ball_geom, INT),
            nose_geom=pointer(self._nose_geom, INT),
            inertia=pointer(self._inertia, DOUBLE),
            dof_inertia=pointer(self._dof_inertia, DOUBLE),
            nose=pointer(self._nose, DOUBLE),
            nose_height=table.nose_height,
        )
        self.address = ctypes.addressof(self._struct)

    def _keep_made(self, model: mujoco.MjModel, balls: Sequence[int], noses: Sequence[int]) -> None:
        """Keep what a job with other sizes, masses or noses changes in its thread's model (``native/fitted.c``)."""
        self._ball_id = np.array(self.ball_ids, np.int32)
        self._ball_geom, self._nose_geom = np.array(balls, np.int32), np.array(noses, np.int32)
        self._inertia = np.array(model.body_inertia[self.body])
        self._dof_inertia = np.array([model.dof_M0[dof : dof + 5] for dof in self.dof])
        self._nose = np.column_stack([model.geom_pos[noses], model.geom_size[noses, 0]])

    @classmethod
    def of(cls, model: mujoco.MjModel, table: TableModel, ball_ids: Sequence[int]) -> Layout:
        """Return the layout of a model made by :func:`cue_sim.model.build_spec`.

        Raises:
            KeyError: the model lacks a ball or a nose.
        """
        return cls(model, table, ball_ids)

    def positions(self, data: mujoco.MjData) -> np.ndarray:
        """Return the (n, 2) ball centres [m], table frame; pocketed balls are parked far outside."""
        return np.stack([data.qpos[self.qpos], data.qpos[self.qpos + 1]], -1)

    def velocities(self, data: mujoco.MjData) -> np.ndarray:
        """Return the (n, 2) velocities [m/s], table frame."""
        return np.stack([data.qvel[self.dof], data.qvel[self.dof + 1]], -1)

    def orientations(self, data: mujoco.MjData) -> np.ndarray:
        """Return the (n, 4) quaternions wxyz, table_from_ball."""
        return data.qpos[self.qpos[:, None] + np.arange(2, 6)]

    def spins(self, data: mujoco.MjData) -> np.ndarray:
        """Return the (n, 3) angular velocities [rad/s] about the table's axes (MuJoCo keeps them in the ball's)."""
        out = np.empty((len(self.ball_ids), 3))
        for i, (dof, quat) in enumerate(zip(self.dof, self.orientations(data), strict=True)):
            mujoco.mju_rotVecQuat(out[i], data.qvel[dof + 2 : dof + 5], quat)
        return out

    def moving(self, data: mujoco.MjData, in_play: np.ndarray) -> np.ndarray:
        """Return (n,) bool: in play and travelling or about to (a ball that only spins upright counts as resting)."""
        linear = np.any(self.velocities(data) != 0, axis=1)
        return np.asarray(in_play, bool) & (linear | np.any(self.spins(data)[:, :2] != 0, axis=1))

    def stop(self, ball: int) -> float:
        """Return the distance [m] from a nose line to the touching ball's centre, for the ball at this index."""
        return float(np.sqrt(self.radius[ball] ** 2 - (self.table.nose_height - self.radius[ball]) ** 2))


class Outcome(NamedTuple):
    """What one :func:`advance` did: status (0 end time, 1 rest, 2 contacts), fault (None = fine), events, steps."""

    status: int
    fault: str | None
    events: list[Event]
    steps: int
    sampled: int


_NO_TIMES = np.empty(0)


def start(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    layout: Layout,
    positions: np.ndarray,
    velocities: np.ndarray,
    spins: np.ndarray,
    in_play: np.ndarray,
) -> None:
    """Reset the whole simulation and set the balls: (n, 2) m, (n, 2) m/s, (n, 3) rad/s table axes, (n,) int32."""
    library().cue_start(
        layout.address,
        model._address,
        data._address,
        positions.ctypes.data,
        velocities.ctypes.data,
        spins.ctypes.data,
        in_play.ctypes.data,
    )


def advance(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    layout: Layout,
    laws: Laws | np.ndarray,
    in_play: np.ndarray,
    until: float,
    largest_step: float = LARGEST_STEP,
    impact_step: float = IMPACT_STEP,
    *,
    contact_limit: int = 0,
    stop_at_rest: bool = False,
    check_energy: bool = False,
    step_limit: int = 0,
    times: np.ndarray = _NO_TIMES,
    position_out: np.ndarray | None = None,
    pocketed_out: np.ndarray | None = None,
    event_capacity: int = 512,
) -> Outcome:
    """Step the model until ``data.time`` is ``until``; the interpreter lock is free meanwhile.

    Contacts other than ball-ball and ball-nose are left to MuJoCo, and so are the balls' orientations, which nothing
    depends on: they are right to the first order in the step. ``model`` must not be used by another thread: its time
    step changes from step to step.

    Args:
        model: compiled from :func:`cue_sim.model.build_spec`, possibly with more bodies.
        data: its state; ``data.ctrl`` is held.
        layout: of this model.
        laws: coefficients, or their array.
        in_play: (n,) int32, C-contiguous; set to 0 for balls that fall into a pocket (they are parked).
        until: absolute simulation time [s].
        largest_step: [s]; choose a small one while a cue tip is near a ball.
        impact_step: [s].
        contact_limit: stop when this many ball-ball and cushion contacts have begun; 0 = never.
        stop_at_rest: stop as soon as all balls rest.
        check_energy: fault when the balls gain energy; not where a cue strikes.
        step_limit: fault after so many steps; 0 = never.
        times: (T,) absolute sample times [s], increasing.
        position_out: (T, n, 2) samples [m].
        pocketed_out: (T, n) uint8.
        event_capacity: events beyond are counted but not kept.

    Returns:
        Status, fault, events in order of time, steps made, samples written.
    """
    values = laws.array() if isinstance(laws, Laws) else laws
    events = np.empty((event_capacity, 4))
    options = Options(until, largest_step, impact_step, contact_limit, stop_at_rest, check_energy, step_limit)
    record = Record(event_capacity=event_capacity, event=pointer(events, DOUBLE))
    if len(times) and position_out is not None and pocketed_out is not None:
        record.count = len(times)
        record.time = pointer(times, DOUBLE)
        record.position = pointer(position_out, DOUBLE)
        record.pocketed = pointer(pocketed_out, BYTE)
    status = library().cue_advance(
        layout.address,
        model._address,
        data._address,
        values.ctypes.data,
        in_play.ctypes.data,
        ctypes.addressof(options),
        ctypes.addressof(record),
    )
    ids = layout.ball_ids
    happened = [
        Event(t, EventKind(int(k)), ids[int(a)], ids[int(b)] if k == EventKind.BALL_BALL else int(b))
        for t, k, a, b in events[: record.events].tolist()
    ]
    return Outcome(status, fault(status), happened, record.steps, record.next)


def work(layout: Layout, model: mujoco.MjModel, data: mujoco.MjData, batch: int) -> int:
    """Take and do jobs of a batch (address of a :class:`cue_sim.structures.Batch`) until none is left; return how many.

    Any number of threads may do so, each with a model and a state of its own.
    """
    return int(library().cue_work(layout.address, model._address, data._address, batch))
