"""Samplers and generators for other packages; each needs an extra."""
