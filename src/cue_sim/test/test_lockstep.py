"""The lockstep rule: decisions rest on the acknowledgement of the frame before, and nothing else."""

from __future__ import annotations

import pytest

from cue_core.errors import OutOfRangeError
from cue_sim.lockstep import Decision, Lockstep, LockstepConfig


def _settled(idle_frames: int = 3) -> Lockstep:
    """Return a world that has come to rest and waits."""
    lockstep = Lockstep(LockstepConfig(idle_frames=idle_frames))
    lockstep.acknowledge(0, True)
    while lockstep.decide(False, False) is Decision.ADVANCE:
        lockstep.advanced()
        lockstep.acknowledge(lockstep.frame, True)
    assert lockstep.decide(False, False) is Decision.WAIT_IDLE
    return lockstep


def test_the_first_frame_needs_its_own_acknowledgement() -> None:
    lockstep = Lockstep(LockstepConfig())
    assert lockstep.decide(True, True) is Decision.WAIT_FOR_ACKNOWLEDGEMENT
    assert lockstep.unacknowledged == (0,)
    lockstep.acknowledge(0, False)
    assert lockstep.decide(False, False) is Decision.ADVANCE


def test_two_frames_may_be_under_way_but_not_three() -> None:
    lockstep = Lockstep(LockstepConfig())
    lockstep.acknowledge(0, False)
    lockstep.advanced()
    assert lockstep.decide(False, False) is Decision.ADVANCE  # frame 0 is acknowledged, 1 is under way
    lockstep.advanced()
    assert lockstep.decide(False, False) is Decision.WAIT_FOR_ACKNOWLEDGEMENT
    assert lockstep.unacknowledged == (1, 2)


def test_the_newest_acknowledgement_does_not_decide() -> None:
    """A fast tracker that has already settled frame k must not change what frame k-1 asked for."""
    slow, fast = Lockstep(LockstepConfig(idle_frames=1)), Lockstep(LockstepConfig(idle_frames=1))
    for lockstep in (slow, fast):
        lockstep.acknowledge(0, False)
        lockstep.advanced()
    fast.acknowledge(1, True)
    assert slow.decide(False, False) is fast.decide(False, False) is Decision.ADVANCE


def test_the_clock_waits_when_nothing_is_wanted_and_runs_for_a_goal() -> None:
    lockstep = _settled(idle_frames=3)
    assert lockstep.frame == 3
    assert lockstep.begin_goal(0, active=False, moving=False)
    assert lockstep.decide(True, False) is Decision.ADVANCE


@pytest.mark.parametrize("delay", [0, 1, 2, 50])
def test_the_frame_of_a_goal_does_not_depend_on_when_it_comes(delay: int) -> None:
    """A goal sent early, while the idle frames still run, begins where a late one would."""
    lockstep = Lockstep(LockstepConfig(idle_frames=3))
    lockstep.acknowledge(0, True)
    step = 0
    while True:
        came = step >= delay
        if came and lockstep.begin_goal(0, active=False, moving=False):
            break
        if lockstep.decide(False, False) is Decision.ADVANCE:
            lockstep.advanced()
            lockstep.acknowledge(lockstep.frame, True)
        step += 1
    assert lockstep.frame == 3


def test_a_goal_during_motion_begins_in_the_end_and_at_once_when_it_replaces_another() -> None:
    lockstep = Lockstep(LockstepConfig(goal_patience=5))
    lockstep.acknowledge(0, False)
    assert not lockstep.begin_goal(0, active=False, moving=True)
    assert not lockstep.begin_goal(4, active=False, moving=True)
    assert lockstep.begin_goal(5, active=False, moving=True)
    assert lockstep.begin_goal(0, active=True, moving=True)


def test_a_lost_acknowledgement_is_asked_for_again_and_a_repeat_changes_nothing() -> None:
    lockstep = Lockstep(LockstepConfig())
    lockstep.acknowledge(0, True)
    lockstep.advanced()
    lockstep.advanced()
    assert lockstep.unacknowledged == (1, 2)
    lockstep.acknowledge(1, False)
    lockstep.acknowledge(1, True)  # a tracker that came back says something else: the first word counts
    assert lockstep.unacknowledged == (2,)
    assert lockstep.decide(False, False) is Decision.ADVANCE
    lockstep.acknowledge(77, True)
    assert lockstep.unacknowledged == (2,)


def test_a_tracker_that_is_to_calibrate_anew_gets_more_images() -> None:
    lockstep = _settled()
    lockstep.calibration_lost(lockstep.frame - 1)
    assert lockstep.decide(False, False) is Decision.WAIT_IDLE, "the clock has left that image behind"
    lockstep.calibration_lost(lockstep.frame)
    for settled in (False, False, True):
        assert lockstep.decide(False, False) is Decision.ADVANCE
        lockstep.advanced()
        lockstep.calibration_lost(lockstep.frame)
        lockstep.acknowledge(lockstep.frame, settled)
    lockstep = Lockstep(LockstepConfig())
    lockstep.calibration_lost(0)  # at the start no tracker is calibrated
    assert lockstep.decide(False, False) is Decision.WAIT_FOR_ACKNOWLEDGEMENT


def test_the_world_waits_for_the_arm_to_report() -> None:
    lockstep = Lockstep(LockstepConfig())
    lockstep.acknowledge(0, False)
    assert lockstep.decide(False, True, reporting=True) is Decision.WAIT_FOR_ARM
    assert lockstep.decide(False, True, reporting=False) is Decision.ADVANCE


def test_a_restored_world_needs_the_acknowledgement_of_its_frame() -> None:
    lockstep = Lockstep(LockstepConfig(), frame=41)
    assert lockstep.unacknowledged == (41,)
    lockstep.acknowledge(40, True)
    assert lockstep.decide(True, True) is Decision.WAIT_FOR_ACKNOWLEDGEMENT
    lockstep.acknowledge(41, True)
    assert lockstep.decide(False, True) is Decision.ADVANCE


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(OutOfRangeError, match="idle_frames"):
        LockstepConfig(idle_frames=0)
