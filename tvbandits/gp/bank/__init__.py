"""A bank of space-time models, weighted by how well they predict.

`python -m benchmarks.bank` measures it on networks: what all sites read say of the next step, and what a
few questions a step lose.
"""

from tvbandits.gp.bank.bank import Bank
from tvbandits.gp.bank.settings import Setting

__all__ = ["Bank", "Setting"]
