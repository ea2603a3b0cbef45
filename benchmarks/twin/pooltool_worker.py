"""Runs inside pooltool's environment: reads shots from stdin as JSON, plays them when asked, answers on stdout."""

from __future__ import annotations

import ctypes
import importlib.metadata
import json
import os
import signal
import sys
import time
from typing import Any

# What pooltool prints must not mix with the answers.
_ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import pooltool as pt  # noqa: E402
from pooltool.objects.ball.datatypes import BallState  # noqa: E402
from pooltool.physics.resolve.resolver import default_resolver  # noqa: E402

_SLIDING, _POCKETED = 2, 4


def _answer(data: Any) -> None:
    _ANSWERS.write(json.dumps(data) + "\n")
    _ANSWERS.flush()


def _system(table: Any, params: Any, shot: Any, length: float, width: float) -> Any:
    """Return a shot; pooltool's long axis is y and its origin a corner, so everything turns by 90 degrees."""
    balls = {}
    for k, (x, y) in enumerate(shot["positions"]):
        ball = pt.Ball.create(str(k), xy=(width / 2 - y, length / 2 + x))
        balls[str(k)] = pt.Ball(str(k), state=ball.state, params=params)
    (vx, vy), (wx, wy, wz) = shot["velocity"], shot["spin"]
    motion = balls["0"].state.rvw.copy()
    motion[0][2] = params.R
    motion[1] = [-vy, vx, 0.0]
    motion[2] = [-wy, wx, wz]
    balls["0"].state = BallState(motion, _SLIDING)
    return pt.System(cue=pt.Cue(cue_ball_id="0"), table=table.copy(), balls=balls)


def main() -> None:
    """Serve one parent until it closes the pipe or ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: also in the middle of a batch
    given = json.loads(sys.stdin.readline())
    size, value = given["table"], given["parameters"]
    length, width, radius = size["length"], size["width"], size["ball_radius"]
    table = pt.Table.from_table_specs(
        pt.objects.PocketTableSpecs(
            l=length,
            w=width,
            cushion_height=size["nose_height"],
            corner_pocket_width=size["corner_mouth"],
            side_pocket_width=size["side_mouth"],
        )
    )
    # the same cloth, so that balls run as long; models of impacts stay its defaults
    params = pt.BallParams(
        m=size["ball_mass"],
        R=radius,
        u_s=value["sliding_friction"],
        u_r=5 / 7 * value["rolling_friction"],
        u_sp_proportionality=value["spinning_deceleration"] * 2 / 5 / 9.81,
        e_b=value["ball_restitution"],
        e_c=value["cushion_restitution"],
        f_c=value["cushion_friction"],
    )
    engine = pt.physics.PhysicsEngine(resolver=default_resolver())
    systems = [_system(table, params, shot, length, width) for shot in given["shots"]]
    refused: list[int] = []
    rest: list[list[list[float | None]]] = []
    for k, system in enumerate(systems):
        try:
            played = pt.simulate(system, engine=engine)
        except Exception as error:  # whatever it is, the shot cannot be compared
            print(f"pooltool: shot {k}: {type(error).__name__} {error}", file=sys.stderr)
            refused.append(k)
            rest.append([[None, None]] * len(system.balls))
            continue
        rest.append(
            [
                [None, None]
                if ball.state.s == _POCKETED
                else [float(ball.state.rvw[0][1] - length / 2), float(width / 2 - ball.state.rvw[0][0])]
                for ball in played.balls.values()
            ]
        )
    _answer({"version": importlib.metadata.version("pooltool-billiards"), "refused": refused, "rest": rest})
    chosen = [system for k, system in enumerate(systems) if k not in refused]
    for _line in sys.stdin:
        copies = [system.copy() for system in chosen]
        began = time.perf_counter()
        for system in copies:
            pt.simulate(system, engine=engine, inplace=True)
        _answer({"seconds": time.perf_counter() - began})


if __name__ == "__main__":
    main()
