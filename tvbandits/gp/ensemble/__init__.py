"""Predict rewards at candidates by an ensemble of space-time models, weighted by their predictions.

The modules, in the order in which they process a reading:

- `posterior` takes the readings of a bandit, replays later ones after a late reading, and implements the
  posterior; `candidate_posterior` is its part that `arms` shares, and `seasons` searches for a period.
- `mixture` weights the models by their predictions of each step, and deactivates models of low weight.
- `filters` conditions a batch of models on the readings of a step, by the Kalman filter.
- `dynamics` contains the matrices of these filters, the state-space form of the models.
- `models` defines the sets of models.
- `forecasts` computes means and covariances of rewards from the states of the filters.

`arms` is an independent ensemble of scalar filters for arms that have no position.
"""
