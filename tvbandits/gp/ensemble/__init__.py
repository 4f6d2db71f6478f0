"""An ensemble of space-time models on candidates, weighted by how well they predict.

The way of a reading, from the outside in:

- `posterior` takes the readings of a bandit, replays them where one is late, and answers as a posterior;
  `candidate_posterior` is the part of it that arms share, and `seasons` finds a period in the readings.
- `mixture` weights the models by their predictions of each step, and sets light ones aside.
- `filters` conditions a batch of models on the readings of a step, by the Kalman filter.
- `dynamics` has the matrices of these filters, the state-space form of the models.
- `models` has the sets of models.
- `forecasts` carries the states of the filters back to means and covariances of rewards.

`arms` stands beside it: scalar filters for arms that have no position.
"""
