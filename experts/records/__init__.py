"""Answers that were given before: logs of measurements, and recordings of an expert."""
