"""The calibration session: what to play next, when to fit, when to stop. ROS only in ``agent_node``."""

from cue_agent.config import AgentConfig
from cue_agent.journal import Journal
from cue_agent.peers import Code, Peers, Prediction, Scene, SessionEndedError
from cue_agent.planners import Planner, make_planner
from cue_agent.session import Session

__all__ = [
    "AgentConfig",
    "Code",
    "Journal",
    "Peers",
    "Planner",
    "Prediction",
    "Scene",
    "Session",
    "SessionEndedError",
    "make_planner",
]
