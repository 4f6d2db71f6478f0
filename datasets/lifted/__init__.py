"""Test functions whose last coordinate is time."""
