"""Comparisons of policies on problems over seeds, with their tables and pictures."""
