"""Settings of stroke planning."""

from __future__ import annotations

from dataclasses import dataclass

from cue_core.settings import check_settings, setting


@dataclass(frozen=True)
class StrokeSettings:
    """How a stroke is shaped and how much room it keeps."""

    period: float = setting(0.008, "between trajectory points", "s", 0.002, 0.05)
    lead: float = setting(0.012, "of constant tip speed before the contact", "m", 0.0, 0.05)
    through: float = setting(0.003, "of constant tip speed past the contact", "m", 0.0, 0.03)
    tip_acceleration: float = setting(14.0, "largest of the tip on its way to the ball", "m/s^2", 1.0, 50.0)
    tip_braking: float = setting(24.0, "largest of the tip past the ball", "m/s^2", 1.0, 60.0)
    shortest_ramp: float = setting(0.08, "time in which the tip gains its speed, at least", "s", 0.02, 1.0)
    shortest_brake: float = setting(0.025, "time in which the tip loses its speed, at least", "s", 0.01, 1.0)
    hover: float = setting(0.08, "height above the stroke at which free motion begins and ends", "m", 0.04, 0.3)
    lower_time: float = setting(0.30, "from hovering to the back of the stroke", "s", 0.1, 3.0)
    rise_time: float = setting(0.22, "from the end of the stroke to hovering", "s", 0.1, 3.0)
    settle_time: float = setting(0.048, "pause behind the ball before the stroke", "s", 0.0, 2.0)
    free_velocity: float = setting(0.9, "share of the joint speed limits used in free motion", "1", 0.01, 1.0)
    free_acceleration: float = setting(
        0.5, "share of the joint acceleration limits used in free motion", "1", 0.01, 1.0
    )
    free_jerk: float = setting(300.0, "largest of a joint in free motion", "rad/s^3", 1.0, 1e4)
    stroke_velocity: float = setting(0.97, "share of the joint speed limits used in the stroke", "1", 0.1, 1.0)
    stroke_acceleration: float = setting(
        0.95, "share of the joint acceleration limits used in the stroke", "1", 0.1, 1.0
    )
    stroke_jerk: float = setting(5000.0, "largest of a joint in the stroke", "rad/s^3", 100.0, 1e5)
    effort: float = setting(0.90, "share of the motor torques used", "1", 0.1, 1.0)
    clearance: float = setting(0.004, "between arm or cue and anything they may not touch", "m", 0.0, 0.05)
    ball_clearance: float = setting(
        0.010, "between the end of the tip's motion and the next ball's stop", "m", 0.0, 0.1
    )
    ball_gain: float = setting(1.9, "fastest cue ball speed per tip speed, for a ball that comes back", "1", 1.0, 2.0)
    least_gain: float = setting(1.5, "slowest cue ball speed per tip speed, struck at its centre", "1", 1.0, 2.0)
    largest_elevation: float = setting(0.75, "of the cue", "rad", 0.0, 1.2)

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OutOfRangeError: naming the setting.
        """
        check_settings(self)
