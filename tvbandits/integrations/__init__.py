"""Other packages that run a bandit of this one: each needs its extra."""
