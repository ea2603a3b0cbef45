"""Recovery: shots played by the MuJoCo twin with hidden parameters give these back."""

import numpy as np
import pytest

from cue_core.parameters import PARAMETERS, ParameterEstimate, default_fitted, nominal_values
from cue_core.shot_log import ShotLog
from cue_core.table import TableModel
from cue_identify.fit import FitConfig, FitRequest, Fitter
from cue_identify.offline import fit as fit_file
from cue_identify.replay import Budget, Replayer, TwinSimulator
from cue_identify.scoring import mean_score
from cue_identify.synthetic import Noise, hidden_values, record_session

ORDER = list(PARAMETERS)
TABLE = TableModel("small", 1.06, 0.53, 0.01905, 0.049, 0.02419, 0.076, 0.084, 0.010, 0.003, 0.07)
QUIET = Noise(azimuth=np.radians(0.1))


@pytest.fixture(scope="module")
def pair():
    return TwinSimulator(TABLE, (0, 1))


@pytest.fixture(scope="module")
def six():
    return TwinSimulator(TABLE, (0, 1, 3, 5, 6, 8))


@pytest.fixture(scope="module")
def hidden():
    return hidden_values(np.random.default_rng(4))


@pytest.fixture(scope="module")
def pair_records(pair, hidden):
    return record_session(pair, TABLE, hidden, 5, np.random.default_rng(5), QUIET)


@pytest.mark.parametrize("name", default_fitted())
def test_each_parameter_alone_is_recovered(pair, pair_records, hidden, name):
    i = ORDER.index(name)
    present = hidden.copy()
    present[i] = PARAMETERS[name].nominal
    start = ParameterEstimate.nominal()
    start = ParameterEstimate(0, present, start.covariance, start.frozen, start.at_bound, start.identifiable)
    estimate = (
        Fitter(pair, FitConfig(threads=1))
        .fit(pair_records, FitRequest(parameters=(name,), held_out_shot_ids=("shot-4",), evaluations=1500), start)
        .estimate
    )
    span = PARAMETERS[name].maximum - PARAMETERS[name].minimum
    assert abs(estimate.values[i] - hidden[i]) < 0.04 * span
    assert abs(estimate.values[i] - hidden[i]) < 0.35 * abs(present[i] - hidden[i])
    assert estimate.identifiable[i]


def test_all_together_predict_unseen_shots(six):
    """Issue target: held-out rest error at least 80 % below the unfitted twin's, from 8 shots."""
    rng = np.random.default_rng(4)
    hidden = hidden_values(rng)
    records = record_session(six, TABLE, hidden, 24, rng, Noise(azimuth=np.radians(0.05), rest=1e-4))
    outcome = Fitter(six, FitConfig(threads=1)).fit(records[:8], FitRequest(seed=4))
    judge = Replayer(six, Budget(1000), threads=1)
    fitted, _ = mean_score(judge.score(records[8:], outcome.estimate.values))
    unfitted, _ = mean_score(judge.score(records[8:], nominal_values()))
    assert outcome.promoted
    assert fitted < 0.2 * unfitted


def test_c03_any_number_of_workers_gives_the_same_bits_and_offline_is_the_same_fit(pair, pair_records, tmp_path):
    request = FitRequest(evaluations=800, seed=0)
    one = Fitter(pair, FitConfig(threads=1)).fit(pair_records, request)
    eight = Fitter(pair, FitConfig(threads=8)).fit(pair_records, request)
    log = ShotLog(tmp_path / "shots.jsonl")
    for record in pair_records:
        log.append(record)
    offline = fit_file(log.path, TABLE, evaluations=800, threads=2)
    for other in (eight, offline):
        np.testing.assert_array_equal(one.estimate.values, other.estimate.values)
        np.testing.assert_array_equal(one.estimate.covariance, other.estimate.covariance)
        assert one.estimate.data_hash == other.estimate.data_hash
