"""Adapters of bandits and problems to other packages, each of which needs an extra."""
