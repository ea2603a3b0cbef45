r"""What seeing a shot is worth, from its information matrix and what is known before it; numpy alone.

With C the covariance of the d parameters and M the information of a shot about them, the covariance expected after it
is :math:`C' = (C^{-1} + M)^{-1}`, whatever comes out: the model is linear and Gaussian (Chaloner & Verdinelli 1995).

Not every parameter matters. Of a goal G, tr(G C) is the mean square of the error that ignorance of the parameters
causes in what is to be predicted, and

.. math:: g = \tfrac12 \log \frac{\operatorname{tr}(G C)}{\operatorname{tr}(G C')}

the gain [nat] towards it: by how many e-folds the root mean square error falls. It is L-optimality (Atkinson, Donev &
Tobias 2007, section 10.5), A-optimality for the linear goal :math:`G^{1/2} \theta` (Chaloner & Verdinelli, section
2.2). D-optimality, :func:`expected_gain`, also chases parameters that matter for nothing.
"""

from __future__ import annotations

import numpy as np


def expected_gain(information: np.ndarray, covariance: np.ndarray) -> float:
    """Return the expected information gain [nat] of observing a shot, 1/2 log det(I + C^1/2 M C^1/2) (Lindley 1956).

    Args:
        information: (d, d) of the shot.
        covariance: (d, d) of the parameters before it.
    """
    sign, value = np.linalg.slogdet(np.eye(len(covariance)) + covariance @ information)
    return 0.5 * max(float(value), 0.0) if sign > 0 else 0.0


def after(information: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Return the (d, d) covariance of the parameters expected after a shot: (C^-1 + M)^-1, C may be singular."""
    shrunk = np.linalg.solve(np.eye(len(covariance)) + covariance @ information, covariance)
    return (shrunk + shrunk.T) / 2


def goal_error(goal: np.ndarray, covariance: np.ndarray) -> float:
    """Return tr(G C): the mean square error that ignorance of the parameters causes, in the goal's units.

    Args:
        goal: (d, d) G, e.g. a mean of :attr:`cue_sim.outlook.Outlook.sensitivity` [m^2 over the parameters' units].
        covariance: (d, d) of the parameters.
    """
    return max(float(np.einsum("ij,ji->", goal, covariance)), 0.0)


def goal_gain(information: np.ndarray, covariance: np.ndarray, goal: np.ndarray) -> float:
    """Return the expected gain [nat] towards a goal, 1/2 log(tr(G C) / tr(G C')); 0 where nothing is left to gain.

    Args:
        information: (d, d) of the shot.
        covariance: (d, d) of the parameters before it.
        goal: (d, d) G.
    """
    now, then = goal_error(goal, covariance), goal_error(goal, after(information, covariance))
    return 0.5 * float(np.log(now / then)) if now > then > 0 else 0.0
