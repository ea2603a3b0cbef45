"""The native kernel: exact billiards laws around MuJoCo's step (``native/``), its layout, laws and one call.

>>> layout = Layout.of(model, table, ball_ids)
>>> advance(model, data, layout, Laws.from_parameters(vector), in_play, until=0.5)
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

import mujoco
import numpy as np

from cue_core.errors import FileFormatError
from cue_core.table import TableModel
from cue_sim.geometry import cushion_index, nose_segments
from cue_sim.laws import KernelError, Laws
from cue_sim.laws.library import load

LARGEST_STEP = 0.02
"""Default largest step of the event-aligned loop [s]."""
IMPACT_STEP = 2e-6
"""Default step in which an impact happens [s]."""
MAX_BALLS = 32


class EventKind(IntEnum):
    """What happened; values equal ``native/cue_kernel.h``.

    The model keeps balls on the cloth. ``AIRBORNE`` names what it cannot do: an impact whose vertical impulse P would
    have thrown the ball higher than ``Laws.hop_height``, (P/m)^2 / (2 g). Upward impulses come from friction at the
    contact (a ball with topspin climbs the one it strikes full; at a low nose with much friction a rolling ball climbs
    the cushion), and from the slate as far as it gives back a downward one (``Laws.slate_restitution``). The ball's
    path is simulated as if it had stayed down.
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


FAULTS = {-1: "not finite", -2: "energy gain", -3: "escape"}
"""Names of the kernel's faults."""


_INT = ctypes.POINTER(ctypes.c_int32)
_DOUBLE = ctypes.POINTER(ctypes.c_double)
_BYTE = ctypes.POINTER(ctypes.c_uint8)


class _Layout(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("balls", "segments", "pockets", "geoms")),
        *((name, _INT) for name in ("body", "qpos", "dof")),
        ("radius", _DOUBLE),
        ("mass", _DOUBLE),
        ("role", _INT),
        ("segment", _DOUBLE),
        ("reach", _DOUBLE),
        ("cushion", _INT),
        ("pocket", _DOUBLE),
        ("half_length", ctypes.c_double),
        ("half_width", ctypes.c_double),
    ]


class _Options(ctypes.Structure):
    _fields_ = [
        ("until", ctypes.c_double),
        ("largest_step", ctypes.c_double),
        ("impact_step", ctypes.c_double),
        ("contact_limit", ctypes.c_int32),
        ("stop_at_rest", ctypes.c_int32),
        ("check_energy", ctypes.c_int32),
        ("unused", ctypes.c_int32),
    ]


class _Record(ctypes.Structure):
    _fields_ = [
        ("count", ctypes.c_int32),
        ("next", ctypes.c_int32),
        ("time", _DOUBLE),
        ("position", _DOUBLE),
        ("pocketed", _BYTE),
        ("event_capacity", ctypes.c_int32),
        ("events", ctypes.c_int32),
        ("event", _DOUBLE),
        ("contacts", ctypes.c_int32),
        ("steps", ctypes.c_int32),
    ]


def _pointer(array: np.ndarray, kind: Any) -> Any:
    return array.ctypes.data_as(kind)


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
        self._struct = _Layout(
            balls=n,
            segments=len(segments),
            pockets=len(self._pocket),
            geoms=model.ngeom,
            body=_pointer(self.body, _INT),
            qpos=_pointer(self.qpos, _INT),
            dof=_pointer(self.dof, _INT),
            radius=_pointer(self.radius, _DOUBLE),
            mass=_pointer(self.mass, _DOUBLE),
            role=_pointer(self._role, _INT),
            segment=_pointer(self.segments, _DOUBLE),
            reach=_pointer(self.reach, _DOUBLE),
            cushion=_pointer(self._cushion, _INT),
            pocket=_pointer(self._pocket, _DOUBLE),
            half_length=table.length / 2,
            half_width=table.width / 2,
        )
        self.address = ctypes.addressof(self._struct)

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
    times: np.ndarray = _NO_TIMES,
    position_out: np.ndarray | None = None,
    pocketed_out: np.ndarray | None = None,
    event_capacity: int = 512,
) -> Outcome:
    """Step the model until ``data.time`` is ``until``; the interpreter lock is free meanwhile.

    Contacts other than ball-ball and ball-nose are left to MuJoCo. ``model`` must not be used by another thread: its
    time step changes from step to step.

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
        times: (T,) absolute sample times [s], increasing.
        position_out: (T, n, 2) samples [m].
        pocketed_out: (T, n) uint8.
        event_capacity: events beyond are counted but not kept.

    Returns:
        Status, fault, events in order of time, steps made, samples written.
    """
    values = laws.array() if isinstance(laws, Laws) else laws
    events = np.empty((event_capacity, 4))
    options = _Options(until, largest_step, impact_step, contact_limit, stop_at_rest, check_energy, 0)
    record = _Record(event_capacity=event_capacity, event=_pointer(events, _DOUBLE))
    if len(times) and position_out is not None and pocketed_out is not None:
        record.count = len(times)
        record.time = _pointer(times, _DOUBLE)
        record.position = _pointer(position_out, _DOUBLE)
        record.pocketed = _pointer(pocketed_out, _BYTE)
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
    return Outcome(status, FAULTS.get(status), happened, record.steps, record.next)
