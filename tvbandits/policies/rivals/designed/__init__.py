"""Policies that solve an optimisation problem for whom to play."""
