"""A bank of space-time models, weighted by how well they predict; no policy plays it yet.

`python -m benchmarks.bank` measures it on networks: what all sites read say of the next step, and what a
few questions a step lose.
"""

from tvbandits.queries.bank.all_read import AllRead
from tvbandits.queries.bank.bank import Bank
from tvbandits.queries.bank.questions import questions as bank_questions
from tvbandits.queries.bank.settings import Setting

__all__ = ["AllRead", "Bank", "Setting", "bank_questions"]
