"""Settings of the agent."""

from __future__ import annotations

from dataclasses import dataclass

from cue_core.errors import CueError, OutOfRangeError
from cue_core.settings import check_settings, setting

PLANNERS = ("offline", "random", "script", "misfit")
LLM = "llm"
"""A language model explores; the offline planner goes on where it cannot. See :mod:`cue_agent.llm`."""


@dataclass(frozen=True)
class AgentConfig:
    """Settings of the agent; lengths in m, speeds in m/s, angles in rad, times in s of wall clock.

    The compute budgets count simulated shots, never seconds, so that a slow machine plays the same session.
    """

    run_dir: str = setting("", "folder of the run, from which a session is resumed; empty = keep nothing")
    robot: str = setting("", "robot file (config/robots), which says where the arm reaches; empty = a geometric rule")
    planner: str = setting("offline", f"what chooses the shots: {', '.join((*PLANNERS, LLM))}")
    seed: int = setting(0, "of every random choice", low=0, high=2**31 - 1)
    shots: int = setting(12, "strokes of a session when the goal says 0, held-out ones included", low=2, high=1000)
    held_out_shots: int = setting(5, "of these, played after the last fit only to judge it", low=1, high=999)

    probes: int = setting(3, "generic shots before the model is asked what it knows least", low=0, high=100)
    wall_budget: float = setting(0.0, "wall time of a session; 0 = no limit", "s", 0.0, 1e6)
    compute_budget: int = setting(
        0, "simulated shots of all fits and decisions together; 0 = no limit", low=0, high=2**31 - 1
    )
    first_fit: int = setting(3, "usable shots before the first fit", low=1, high=100)
    fit_every: int = setting(2, "unfitted shots that are fitted at the latest", low=1, high=100)
    fit_evaluations: int = setting(0, "simulated shots of one fit; 0 = the fitter's default", low=0, high=10_000_000)
    refit_level: float = setting(
        4.0, "mean squared stated deviations of a shot that call for a fit at once", low=0.0, high=1e6
    )
    refit_gain: float = setting(0.7, "that unfitted shots should have taught together, likewise", "nat", 0.0, 1e6)
    agreement_shots: int = setting(
        2, "newest shots that must agree with what was stated before them, to explore no more", low=1, high=1000
    )
    worth: float = setting(
        0.0003, "rest error that the best next shot must be expected to save, to explore further", "m", 0.0, 1.0
    )
    terms_from: int = setting(6, "fitted shots before terms beyond the usual ones are tried", low=2, high=1000)
    terms_growth: float = setting(
        1.5, "times as many fitted shots as last time, before they are tried again", low=1.1, high=100.0
    )
    terms_shots: int = setting(3, "newest shots that must speak for them", low=1, high=100)
    terms_level: float = setting(4.0, "median of their mean squared stated deviations that does", low=1.0, high=1e6)
    drop_factor: float = setting(8.0, "times the usual error, beyond which a fitted shot is dropped", low=1.0, high=1e6)
    drop_error: float = setting(0.04, "least error for that", "m", 0.0, 10.0)
    hold_gain: float = setting(0.01, "expected gain below which a shot judges fits instead", "nat", 0.0, 1e6)
    max_held_back: int = setting(2, "shots that do so", low=0, high=100)
    max_refinements: int = setting(1, "times that the tracker is told to calibrate anew", low=0, high=100)
    max_place_stddev: float = setting(
        0.003, "of a resting ball as the tracker states it, beyond which it is told so", "m", 0.0, 1.0
    )
    reserve_shots: int = setting(
        1, "always kept back for what befalls the held-out shots: escapes, lost records", low=0, high=100
    )
    spare_shots: int = setting(
        2,
        "kept back at most: reserve_shots, and one for each unusable exploration shot",
        low=0,
        high=100,
    )
    min_held_out: int = setting(3, "held-out shots without which a session that ends early has failed", low=1, high=999)

    candidates: int = setting(512, "shots proposed per decision, each simulated once", low=4, high=100_000)
    shortlist: int = setting(40, "of these, looked at with the ensemble", low=1, high=10_000)
    drawn: int = setting(16, "shots that are drawn rather than chosen, looked at with the ensemble", low=1, high=10_000)
    finalists: int = setting(5, "of the shortlist, after which one shot further is thought", low=0, high=100)
    goal_shots: int = setting(16, "typical shots whose prediction is the goal", low=1, high=10_000)
    ensemble: int = setting(12, "parameter samples per examined shot", low=0, high=1000)
    speed_min: float = setting(0.3, "slowest tip", "m/s", 0.05, 5.0)
    speed_max: float = setting(1.2, "fastest tip", "m/s", 0.05, 5.0)
    speed_stddev: float = setting(0.01, "relative error of a stroke's speed", low=0.0, high=0.5)
    azimuth_stddev: float = setting(0.005, "error of a stroke's direction", "rad", 0.0, 0.2)
    measurement_stddev: float = setting(0.002, "of an observed rest position", "m", 1e-5, 0.1)
    rest_stddev: float = setting(0.01, "of a predicted rest position, beyond the ensemble's", "m", 0.0, 0.5)
    max_cue_pocket: float = setting(
        0.03, "largest probability of losing the cue ball in a pocket or its mouth in one shot", low=0.0, high=1.0
    )
    max_any_pocket: float = setting(0.08, "largest probability of losing any ball in one shot", low=0.0, high=1.0)
    max_stuck: float = setting(0.25, "largest probability of leaving the cue ball hardly playable", low=0.0, high=1.0)
    min_playable: float = setting(0.25, "share of directions that must be playable", low=0.0, high=1.0)

    max_held_out_scatter: float = setting(
        0.05,
        "of rest positions from errors of the stroke alone; beyond it a held-out shot would judge luck",
        "m",
        0.0,
        9.0,
    )

    max_refusals: int = setting(24, "shots in a row that the arm may refuse", low=1, high=1000)
    max_failures: int = setting(3, "strokes in a row that may fail without touching the ball", low=1, high=100)
    max_aborted: int = setting(
        0,
        "strokes broken off at or after contact that need no person's look; in simulation at least 2",
        low=0,
        high=100,
    )
    max_not_observed: int = setting(2, "strokes in a row that may go unseen", low=1, high=100)

    quiet_images: int = setting(3, "images at rest before the balls are taken to rest", low=1, high=1000)
    quiet_timeout: float = setting(2.0, "without an image, after which the last one counts", "s", 0.1, 60.0)
    answer_timeout: float = setting(10.0, "without an answer, after which a peer is asked again", "s", 0.1, 600.0)
    peer_timeout: float = setting(60.0, "without a peer, after which the session ends", "s", 0.1, 3600.0)
    time_reset: float = setting(0.5, "jump back of the clock that ends a session", "s", 0.001, 1e6)

    def __post_init__(self) -> None:
        """Check bounds and combinations.

        Raises:
            CueError: naming the setting and what is allowed.
        """
        check_settings(self)
        if self.planner not in (*PLANNERS, LLM):
            raise CueError(f"planner is {self.planner!r}; available are {', '.join((*PLANNERS, LLM))}")
        if self.held_out_shots >= self.shots:
            raise OutOfRangeError("held_out_shots", self.held_out_shots, 1, self.shots - 1)
        if self.speed_min >= self.speed_max:
            raise OutOfRangeError("speed_min", self.speed_min, 0.05, self.speed_max, "m/s")
