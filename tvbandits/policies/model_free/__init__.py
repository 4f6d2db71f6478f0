"""Policies without a model of the reward, and what all players that are no bandits share."""
