"""The start-up probe: every parameter acts, and one that does not is named."""

from __future__ import annotations

import numpy as np
import pytest

from cue_core.errors import UnknownNameError
from cue_core.parameters import PARAMETERS, nominal_values
from cue_core.table import TableModel
from cue_sim.config_files import config_file
from cue_sim.laws import available
from cue_sim.predict import TwinFaultError
from cue_sim.probe import unused_parameters
from cue_sim.rollouts import LawRows
from cue_sim.twin import Twin

PLACES = {name: k for k, name in enumerate(PARAMETERS)}


def table(name="small"):
    return TableModel.load(config_file("tables", name))


@pytest.mark.parametrize("name", ["small", "7ft", "9ft", "snooker", "carom"])
def test_m06_every_parameter_acts(name):
    missing = [f"{what}_offset_{i}" for what in ("cushion", "nose") for i in range(len(table(name).cushions), 6)]
    assert list(unused_parameters(table(name), list(PARAMETERS))) == missing


@pytest.mark.parametrize("law", available("cushion"))
def test_m06_every_parameter_acts_with_every_cushion_law(law):
    assert unused_parameters(table(), list(PARAMETERS), {"cushion_law": law}) == ()


def test_m06_an_idle_parameter_is_named(monkeypatch):
    """As if the model ignored one."""
    of = LawRows.of.__func__
    place = PLACES["ball_friction"]

    def ignoring(cls, vectors, *args, **kwargs):
        vectors = np.array(vectors)
        vectors[:, place] = nominal_values()[place]
        return of(cls, vectors, *args, **kwargs)

    monkeypatch.setattr(LawRows, "of", classmethod(ignoring))
    assert unused_parameters(table(), ("ball_friction", "sliding_friction")) == ("ball_friction",)


def test_what_the_probe_refuses(monkeypatch):
    with pytest.raises(UnknownNameError, match="stickiness"):
        unused_parameters(table(), ("stickiness",))
    whole = Twin.simulate_batch

    def failing(self, starts, parameters, **kwargs):
        parameters[-1, 0] = np.nan
        return whole(self, starts, parameters, **kwargs)

    monkeypatch.setattr(Twin, "simulate_batch", failing)
    with pytest.raises(TwinFaultError, match="not finite"):
        unused_parameters(table(), ("tilt_x",))
