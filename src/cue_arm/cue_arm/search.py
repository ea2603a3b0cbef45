"""How hard a way is looked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LEAST_SHARE = 0.15
"""Of the usual tip acceleration; less would need more room than a small table has."""


@dataclass(frozen=True)
class Search:
    """What is tried before a shot is refused.

    Attributes:
        seeds: known joint solutions that each search for a new one starts from.
        bank: tip poses over the table that are solved beforehand to have such seeds.
        ways: joint ways through one stroke that are followed in full.
        rolls: turns of the cue about its own axis [rad].
        shares: of the usual tip acceleration; where that is too much for a joint, gentler ones are found as needed.
        lifts: how much higher the way to the stroke and back may lead [m].
        checks: configurations looked at in search of a way round.
    """

    seeds: int = 10
    bank: int = 3000
    ways: int = 6
    rolls: tuple[float, ...] = (0.0, 0.3, -0.3, 0.6, -0.6)
    shares: tuple[float, ...] = (1.0,)
    lifts: tuple[float, ...] = (0.0, 0.12, 0.25)
    checks: int = 4000

    def denser(self, factor: int) -> Search:
        """Return a search that tries ``factor`` times as much of everything."""
        rolls = np.linspace(min(self.rolls), max(self.rolls), factor * len(self.rolls) - (factor - 1))
        lifts = np.linspace(min(self.lifts), max(self.lifts), factor * len(self.lifts))
        return Search(
            seeds=factor * self.seeds,
            bank=factor * self.bank,
            ways=factor * self.ways,
            rolls=tuple(float(r) for r in sorted(rolls, key=lambda r: (abs(round(r, 9)), -r))),
            shares=tuple(np.geomspace(1.0, LEAST_SHARE, max(factor * len(self.shares), 2)).tolist()),
            lifts=tuple(lifts.tolist()),
            checks=factor * self.checks,
        )
