"""Timings against peers, each ratio measured in one run: `python -m benchmarks`."""
