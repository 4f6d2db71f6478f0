"""Kernels, scales and information gains out of data."""
