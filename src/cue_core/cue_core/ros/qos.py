"""Quality of service of every CUE topic."""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy


def _profile(depth: int, reliable: bool = True, latched: bool = False) -> QoSProfile:
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


LATCHED = _profile(1, latched=True)
"""Table, calibration, estimates, status: the newest one, also for late subscribers."""
RECORDS = _profile(64, latched=True)
"""Shot records: reliable, the newest 64 also for late subscribers."""
STATES = _profile(512)
"""Ball states and joint states: reliable, deep enough for one shot."""
STATES_LATCHED = _profile(512, latched=True)
"""The same, published so that a node that starts while the clock stands still has the newest ones at once."""
IMAGES_LOCKSTEP = _profile(16)
"""Images of the simulated camera: none may be lost, also not on the way to a recorder, which nobody waits for."""
IMAGES_LIVE = _profile(2, reliable=False)
"""Images of a real camera: the newest matters."""
IMAGES_SHOWN = _profile(2)
"""Pictures for people: the newest matters, and who looks may ask for either reliability."""
