"""A Gaussian process as a state that moves in time: its model, and the one Kalman filter."""
