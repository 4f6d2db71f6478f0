"""Policies that remove observations of which the future needs nothing."""
