"""Rivals from the literature, each from its own description."""
