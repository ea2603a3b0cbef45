"""The billiards laws in closed form, written from the papers and used only to judge the twin.

Nothing here is shared with the kernel. Speeds in m/s, spins in rad/s, lengths in m; vectors (3,) in the table frame,
z up. Balls are solid spheres of equal mass, so impulses are per mass.
"""

from __future__ import annotations

import math

import numpy as np

GRAVITY = 9.81
UP = np.array([0.0, 0.0, 1.0])


def slide_time(speed: float, friction: float) -> float:
    """Return how long a ball without spin slides [s]: 2 v / (7 mu g) (Alciatore TP 4.1)."""
    return 2 * speed / (7 * friction * GRAVITY)


def rolling_speed(speed: float) -> float:
    """Return the speed at which a ball without spin begins to roll: 5/7 v (Alciatore TP 4.1)."""
    return 5 / 7 * speed


def stop_distance(speed: float, sliding: float, rolling: float) -> float:
    """Return how far a ball without spin comes [m]: it slides 12 v^2 / (49 mu g), then rolls to rest.

    Rolling loses 5/7 of ``rolling`` g, as :data:`cue_core.parameters.PARAMETERS` defines that coefficient.
    """
    slid = 12 * speed**2 / (49 * sliding * GRAVITY)
    return slid + rolling_speed(speed) ** 2 / (2 * 5 / 7 * rolling * GRAVITY)


def final_roll(velocity: np.ndarray, spin: np.ndarray, radius: float) -> np.ndarray:
    """Return the velocity once a ball rolls: (5 v + 2 R w x z) / 7, from the moment about the cloth (TP A.4)."""
    return (5 * velocity + 2 * radius * np.cross(spin, UP)) / 7 * np.array([1, 1, 0])


def ball_hit(
    velocity: np.ndarray, spin: np.ndarray, line: np.ndarray, radius: float, restitution: float, friction: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return both balls' velocity and spin after a ball hits one at rest: Coulomb friction, level part sticking at 1/7.

    The slip at the contact is v sin(cut) - R w_z across and R w_x (about the line of centres) up; the friction acts
    against it, mu times the normal impulse (1 + e) v cos(cut) / 2, and across it never more than ends the slip, 1/7 of
    it (Alciatore TP A.14). Upwards it only turns the balls; the cloth holds their height, so there 1/5 of the slip
    would end it.

    Args:
        velocity: of the first ball.
        spin: of the first ball.
        line: unit vector from the first ball's centre to the second's.
        radius: of both.
        restitution: along the line.
        friction: between the balls.

    Returns:
        Velocity and spin of the first ball, velocity and spin of the second.
    """
    normal = 0.5 * (1 + restitution) * float(velocity @ line)
    across = np.cross(UP, line)
    slip = velocity + np.cross(spin, radius * line)
    slip = slip - (slip @ line) * line
    push = np.array([slip @ across / 7, slip @ UP / 5])
    if np.hypot(*push) > friction * normal:
        push = friction * normal * np.array([slip @ across, slip @ UP]) / np.linalg.norm(slip)
    impulse = normal * line + push[0] * across + push[1] * UP  # on the second ball
    level = impulse * np.array([1, 1, 0])
    turn = np.cross(line, impulse) / (0.4 * radius)
    return velocity - level, spin - turn, level, -turn


def throw_angle(cut: float, restitution: float, friction: float) -> float:
    """Return by how much a sliding ball without spin throws the ball it hits [rad]; TP A.14 with restitution e.

    tan = mu while it slips, and at most what ends the slip: 2/7 tan(cut) / (1 + e).
    """
    return math.atan(min(friction, 2 / 7 * math.tan(cut) / (1 + restitution)))


def nose_hit(
    velocity: np.ndarray,
    spin: np.ndarray,
    inward: np.ndarray,
    radius: float,
    nose_height: float,
    restitution: float,
    friction: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return velocity and spin after a rigid ball meets a cushion's nose, with Coulomb friction there.

    The nose touches the ball (h - R) above its centre, so the normal leans by sin(theta) = (h - R)/R (Mathavan, Jackson
    and Parkin, Proc. IMechE C 224, 2010, eq. 1-6). Along it the impulse per mass is (1 + e) v cos(theta); friction acts
    against the slip there, at most mu times that and at most 2/7 of the slip; the slate takes the vertical part.

    Args:
        velocity: before.
        spin: before.
        inward: unit vector from the cushion to the table's middle.
        radius: of the ball.
        nose_height: above the cloth.
        restitution: along the normal, at this speed.
        friction: at the nose.
    """
    lean = (nose_height - radius) / radius
    to_nose = -inward * math.sqrt(1 - lean**2) + UP * lean
    approach = float(velocity @ to_nose)
    slip = velocity + np.cross(spin, radius * to_nose)
    slip = slip - (slip @ to_nose) * to_nose
    speed = float(np.linalg.norm(slip))
    normal = (1 + restitution) * approach
    grip = min(2 / 7 * speed, friction * normal)
    impulse = -normal * to_nose - (grip * slip / speed if speed > 0 else 0.0)
    return velocity + impulse * np.array([1, 1, 0]), spin + np.cross(to_nose, impulse) / (0.4 * radius)
