"""Many tables as a ``gymnasium.vector.VectorEnv``: their shots are simulated together, on all cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from cue_core.errors import FileFormatError
from cue_sim.gym.errors import EpisodeError
from cue_sim.gym.game import Game, Observation, Step
from cue_sim.gym.options import TableOptions, load_ground
from cue_sim.gym.picture import PICTURE_SIZE, TablePainter, checked_size


class TableVectorEnv(VectorEnv[Observation, np.ndarray, np.ndarray]):
    """N tables of one kind, each with its own balls, goal, parameters and random numbers.

    Seeded alike it returns what ``SyncVectorEnv`` over ``TableEnv`` returns, to the last bit, for any number
    of threads.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        render_mode: str | None = None,
        picture_size: tuple[int, int] = PICTURE_SIZE,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        threads: int | None = None,
        max_episode_steps: int | None = None,
        **options: Any,
    ) -> None:
        """Load the table.

        Args:
            num_envs: tables.
            render_mode: None or ``"rgb_array"``.
            picture_size: width and height of a picture [px].
            autoreset_mode: when a table whose episode is over is reset; see Gymnasium.
            threads: of the simulation; None = one per CPU core.
            max_episode_steps: Gymnasium's name of ``max_shots``.
            **options: fields of ``TableOptions``.

        Raises:
            CueError: an option makes no sense, or a file is missing.
        """
        if num_envs < 1:
            raise FileFormatError("num_envs", f"is {num_envs}, needs at least 1")
        if max_episode_steps is not None:
            options["max_shots"] = max_episode_steps
        chosen = TableOptions.of(options)
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 1, "autoreset_mode": self.autoreset_mode}
        ground = load_ground(chosen)
        self.games = [Game(ground, chosen) for _ in range(num_envs)]
        self.single_action_space = self.games[0].action_space()
        self.single_observation_space = self.games[0].observation_space()
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._over = np.zeros(num_envs, bool)
        self._threads = threads
        self._size = checked_size(picture_size)
        self._painter: TablePainter | None = None

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode on every table, or on those of ``options["reset_mask"]`` (num_envs,) bool.

        Args:
            seed: table i gets ``seed + i``, or the i-th of a list; None = go on.
            options: as of ``TableEnv``, the same for all tables.

        Raises:
            FileFormatError: seeds or mask do not fit.
            CueError: an option makes no sense.
        """
        rest = dict(options or {})
        mask = np.asarray(rest.pop("reset_mask", np.ones(self.num_envs, bool)))
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
            raise FileFormatError("reset_mask", f"needs ({self.num_envs},) bool, at least one true, got {mask!r}")
        seeds = [int(seed) + i for i in range(self.num_envs)] if isinstance(seed, (int, np.integer)) else seed
        if seeds is not None and len(seeds) != self.num_envs:
            raise FileFormatError("seed", f"needs one number or {self.num_envs}, got {len(seeds)}")
        infos: dict[str, Any] = {}
        shown: list[Observation] = []
        for i, game in enumerate(self.games):
            if not mask[i]:
                shown.append(game.observation())
                continue
            if seeds is not None and seeds[i] is not None:
                self._generators[i] = seeding.np_random(seeds[i])[0]
            observation, info = game.reset(self._generator(i), rest)
            shown.append(observation)
            infos = self._add_info(infos, info, i)
        self._over &= ~mask
        return self._stacked(shown), infos

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Play one shot on every table; a table whose episode is over is reset as the autoreset mode says.

        Args:
            actions: (num_envs, 4).

        Raises:
            ActionError: one is not in the action space; nothing is played.
            EpisodeError: an episode is over and nobody resets it.
        """
        if np.shape(actions)[:1] != (self.num_envs,):
            raise FileFormatError("actions", f"need shape ({self.num_envs}, 4), got {np.shape(actions)}")
        resting = self._over if self.autoreset_mode is AutoresetMode.NEXT_STEP else np.zeros(self.num_envs, bool)
        if self.autoreset_mode is AutoresetMode.DISABLED and self._over.any():
            over = np.flatnonzero(self._over).tolist()
            raise EpisodeError(f"the episodes of tables {over} are over: reset them with options['reset_mask']")
        playing = [i for i in range(self.num_envs) if not resting[i]]
        shots = {i: self.games[i].shot(actions[i]) for i in playing}
        begun = [self.games[i].begin(self._generator(i), shots[i]) for i in playing]
        paths = []
        if begun:  # none where all episodes ended together
            twin, vectors = self.games[0].ground.twin, np.array([values for _, values in begun])
            paths = twin.simulate_batch([start for start, _ in begun], vectors, threads=self._threads)
        steps = {i: self.games[i].finish(path) for i, path in zip(playing, paths, strict=True)}
        infos: dict[str, Any] = {}
        shown: list[Observation] = []
        for i, game in enumerate(self.games):
            if i not in steps:
                observation, info = game.reset(self._generator(i), None)
                steps[i] = Step(observation, 0.0, False, False, info)
            step = steps[i]
            observation, info = step.observation, step.info
            if self.autoreset_mode is AutoresetMode.SAME_STEP and (step.terminated or step.truncated):
                infos = self._add_info(infos, {"final_obs": observation, "final_info": info}, i)
                observation, info = game.reset(self._generator(i), None)
            infos = self._add_info(infos, info, i)
            shown.append(observation)
        rewards = np.array([steps[i].reward for i in range(self.num_envs)])
        terminations = np.array([steps[i].terminated for i in range(self.num_envs)])
        truncations = np.array([steps[i].truncated for i in range(self.num_envs)])
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            self._over = terminations | truncations
        return self._stacked(shown), rewards, terminations, truncations, infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Return one RGB picture (height, width, 3) per table; None without a render mode.

        Raises:
            NoGraphicsError: there is no OpenGL.
        """
        if self.render_mode is None:
            return None
        if self._painter is None:
            self._painter = TablePainter(self.games[0].ground.twin, *self._size)
        return tuple(self._painter.paint(game.situation, game.goal) for game in self.games)

    def close_extras(self, **_kwargs: Any) -> None:
        """Free the graphics."""
        if self._painter is not None:
            self._painter.close()
            self._painter = None

    def _generator(self, i: int) -> np.random.Generator:
        generator = self._generators[i]
        if generator is None:
            generator = self._generators[i] = seeding.np_random()[0]
        return generator

    def _stacked(self, shown: Sequence[Observation]) -> Observation:
        return {name: np.stack([one[name] for one in shown]) for name in shown[0]}
