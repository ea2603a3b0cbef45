"""One table as a ``gymnasium.Env``."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from cue_sim.gym.game import Game, Observation
from cue_sim.gym.options import TableOptions, load_ground
from cue_sim.gym.picture import PICTURE_SIZE, TablePainter, checked_size


class TableEnv(gymnasium.Env[Observation, np.ndarray]):
    """A pool table: one action is one shot, played until all balls rest.

    Action: ``Box(4,)``: speed, azimuth, side and vertical offset of the stroke, see ``TableOptions``.
    Observation: ``Dict`` of ``positions`` (n, 2) [m, table frame], ``in_play`` (n,) and ``goal`` (2,) [m].
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 1}  # noqa: RUF012  # as Gymnasium declares it

    def __init__(
        self, *, render_mode: str | None = None, picture_size: tuple[int, int] = PICTURE_SIZE, **options: Any
    ) -> None:
        """Load the table.

        Args:
            render_mode: None or ``"rgb_array"``.
            picture_size: width and height of a picture [px].
            **options: fields of ``TableOptions``.

        Raises:
            CueError: an option makes no sense, or a file is missing.
        """
        self.render_mode = render_mode
        chosen = TableOptions.of(options)
        self.game = Game(load_ground(chosen), chosen)
        self.action_space = self.game.action_space()
        self.observation_space: gymnasium.spaces.Space[Any] = self.game.observation_space()
        self._size = checked_size(picture_size)
        self._painter: TablePainter | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: of everything drawn from here on; None = go on.
            options: ``positions``, ``goal``, ``parameters``: see :meth:`cue_sim.gym.game.Game.reset`.

        Raises:
            CueError: an option makes no sense.
        """
        super().reset(seed=seed)
        return self.game.reset(self.np_random, options)

    def step(self, action: np.ndarray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Play one shot until all balls rest.

        Raises:
            ActionError: not in the action space.
            EpisodeError: the episode is over.
        """
        start, values = self.game.begin(self.np_random, self.game.shot(action))
        done = self.game.finish(self.game.ground.twin.simulate(start, values))
        return done.observation, done.reward, done.terminated, done.truncated, done.info

    def render(self) -> np.ndarray | None:
        """Return an RGB picture (height, width, 3) of the balls at rest; None without a render mode.

        Raises:
            NoGraphicsError: there is no OpenGL.
        """
        if self.render_mode is None:
            gymnasium.logger.warn("render() without a render mode; make the environment with render_mode='rgb_array'")
            return None
        if self._painter is None:
            self._painter = TablePainter(self.game.ground.twin, *self._size)
        return self._painter.paint(self.game.situation, self.game.goal)

    def close(self) -> None:
        """Free the graphics."""
        if self._painter is not None:
            self._painter.close()
            self._painter = None
