"""Gaussian processes: kernels, fitting and posteriors."""
