"""Kernels over points and times."""
