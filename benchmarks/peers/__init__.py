"""Adapters for other packages, which play the problems of a comparison with the same noise."""
