"""Node ``score``: writes what truly happened to ``run_dir/score.jsonl``, a line per shot, for judging only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rclpy.node import Node

from cue_core.ros.conversions import stamp_to_seconds
from cue_core.ros.diagnostics import Health
from cue_core.ros.node import run_node
from cue_core.ros.params import declare
from cue_core.ros.qos import LATCHED, STATES
from cue_core.settings import setting
from cue_core.shot_log import append_line
from cue_msgs.msg import ShotExecution, WorldState
from cue_sim.score import ScoreKeeper, TrueFrame


@dataclass(frozen=True)
class ScoreConfig:
    """Settings of the node."""

    run_dir: str = setting("", "run folder that score.jsonl is written to; empty = keep nothing")


class ScoreNode(Node):
    """The only subscriber of the ground truth beside the simulated camera."""

    def __init__(self) -> None:
        """Listen."""
        super().__init__("score")
        self._settings = declare(self, ScoreConfig)
        self._keeper: ScoreKeeper | None = None
        self._shot_id = ""
        self._health = Health(self)
        self.create_subscription(ShotExecution, "shot_execution", self._on_execution, LATCHED)
        self.create_subscription(WorldState, "ground_truth/state", self._on_state, STATES)

    def _on_execution(self, msg: ShotExecution) -> None:
        if msg.phase == ShotExecution.STARTED:
            self._shot_id = msg.shot.id

    def _on_state(self, msg: WorldState) -> None:
        self._health.tick("state")
        if self._keeper is None:
            self._keeper = ScoreKeeper(tuple(ball.id for ball in msg.balls))
        line = self._keeper.add(
            TrueFrame(
                int(msg.frame),
                stamp_to_seconds(msg.header.stamp),
                np.array([ball.position[:2] for ball in msg.balls]),
                np.array([ball.pocketed for ball in msg.balls]),
                msg.moving,
            )
        )
        if line and self._settings.run_dir:
            append_line(Path(self._settings.run_dir) / "score.jsonl", {**line, "shot_id": self._shot_id})


def main() -> int:
    """Run the node."""
    return run_node(ScoreNode, threads=1)
