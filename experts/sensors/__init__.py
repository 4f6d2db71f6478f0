"""Measuring stations, and a stub of them in this process."""
