"""Gymnasium environments over the calibrated twin: a shot in, rest positions out.

Importing this module registers ``CUE/Table-v0``; see ``docs/gym.md``.

>>> import gymnasium, cue_sim.gym
>>> env = gymnasium.make("CUE/Table-v0", twin="runs/20261130-160218")
>>> envs = gymnasium.make_vec("CUE/Table-v0", num_envs=64, table="7ft")
"""

import gymnasium

from cue_sim.gym.env import TableEnv
from cue_sim.gym.errors import ActionError, EpisodeError
from cue_sim.gym.game import Game, Step
from cue_sim.gym.options import StrikeNoise, TableOptions
from cue_sim.gym.reward import REWARDS, Reward, Situation, Transition
from cue_sim.gym.vector import TableVectorEnv

__all__ = [
    "ENVIRONMENT_ID",
    "REWARDS",
    "ActionError",
    "EpisodeError",
    "Game",
    "Reward",
    "Situation",
    "Step",
    "StrikeNoise",
    "TableEnv",
    "TableOptions",
    "TableVectorEnv",
    "Transition",
]

ENVIRONMENT_ID = "CUE/Table-v0"

if ENVIRONMENT_ID not in gymnasium.registry:
    gymnasium.register(
        ENVIRONMENT_ID, entry_point="cue_sim.gym.env:TableEnv", vector_entry_point="cue_sim.gym.vector:TableVectorEnv"
    )
