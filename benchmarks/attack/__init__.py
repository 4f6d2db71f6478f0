"""Attacks that take long; a quick form of each is among the tests."""
