"""Posteriors: exact, on inducing points, and by filters."""
