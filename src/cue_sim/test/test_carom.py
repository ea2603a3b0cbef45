"""A table without pockets: four full cushions, nothing to fall into, and something to look at."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cue_core import TableModel
from cue_sim.kernel import EventKind
from cue_sim.model import build_spec
from cue_sim.twin import Start, Twin
from cue_sim.world_config import lay_out

CAROM = TableModel.load(Path(__file__).parents[3] / "config/tables/carom.yaml")


def _start(positions: list[list[float]], velocities: list[list[float]]) -> Start:
    return Start(
        np.array(positions), np.array(velocities), np.zeros((len(positions), 3)), np.ones(len(positions), bool)
    )


def test_balls_stay_on_the_table_wherever_they_run() -> None:
    twin = Twin(CAROM, (0, 1, 2))
    rng = np.random.default_rng(5)
    for _ in range(30):
        path = twin.simulate(
            _start(rng.uniform(-0.6, 0.6, (3, 2)).tolist(), rng.normal(0, 3, (3, 2)).tolist()), None, [1.0, 3.0]
        )
        assert path.fault is None and path.contacts(EventKind.POCKET) == 0
        assert not path.rest_pocketed.any()
        assert all(CAROM.inside(p, margin=-1e-6) for p in path.rest_positions)


def test_each_cushion_is_met_by_its_index_and_line() -> None:
    twin = Twin(CAROM, (0,))
    for index, cushion in enumerate(CAROM.cushions):
        # the middle of a long side is where a pocket table has a pocket
        middle = (cushion.start + cushion.end) / 2
        path = twin.simulate(
            _start([(0.9 * middle).tolist()], [(-2.0 * cushion.normal).tolist()]), None, until_contact=1
        )
        assert path.events[0].other == index
        assert np.isclose((path.rest_positions[0] - middle) @ cushion.normal, CAROM.ball_stop, atol=1e-5)


def test_a_ball_comes_back_out_of_a_corner() -> None:
    path = Twin(CAROM, (0,)).simulate(_start([[1.0, 0.29]], [[1.5, 1.5]]), None)
    assert path.fault is None
    assert {event.other for event in path.events[:2]} == {1, 2}
    assert path.rest_positions[0] @ [1, 1] < 1.0


def test_it_can_be_looked_at() -> None:
    model = build_spec(CAROM, (0, 1, 2)).compile()
    names = [model.geom(i).name for i in range(model.ngeom)]
    assert not [name for name in names if name.startswith(("pocket_", "jaw_"))]
    assert sorted(name for name in names if name.startswith("cushion_")) == [
        f"cushion_{side}" for side in ("east", "north", "south", "west")
    ]


def test_balls_are_laid_out_on_it() -> None:
    places = lay_out(CAROM, 3, np.random.default_rng(0), spacing=0.05, spread=True)
    assert all(CAROM.inside(p, margin=0.05) for p in places)
