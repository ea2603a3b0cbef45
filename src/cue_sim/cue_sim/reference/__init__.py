"""An independent, event-driven simulator of the same table and laws, without MuJoCo, for tests and teaching."""

from cue_sim.reference.loop import SimulationError
from cue_sim.reference.motion import Phase, SteepBedError
from cue_sim.reference.path import Event, EventKind, Path
from cue_sim.reference.simulate import HORIZON, simulate

__all__ = ["HORIZON", "Event", "EventKind", "Path", "Phase", "SimulationError", "SteepBedError", "simulate"]
