"""Attacks: what could break a bandit, tried at random and counted."""
