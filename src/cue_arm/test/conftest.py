"""The simulated arm and small table of the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from cue_arm.planner import MinkBackend
from cue_core import TableModel
from cue_sim.robot import RobotConfig

CONFIG = Path(__file__).resolve().parents[3] / "config"


@pytest.fixture(scope="session")
def robot() -> RobotConfig:
    return RobotConfig.load(CONFIG / "robots" / "ur5e.yaml")


@pytest.fixture(scope="session")
def table() -> TableModel:
    return TableModel.load(CONFIG / "tables" / "small.yaml")


@pytest.fixture(scope="session")
def backend(robot: RobotConfig, table: TableModel) -> MinkBackend:
    return MinkBackend(robot, table)
