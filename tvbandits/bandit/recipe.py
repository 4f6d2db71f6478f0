"""What a bandit is made of (`Recipe`), what it has learned (`State`), what it tells people (`Info`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from tvbandits.acquisition.batch_rules import BatchRule, LocalRatio, One
from tvbandits.acquisition.confidence import Confidence, Theory, as_confidence
from tvbandits.core.arrays import is_finite_number
from tvbandits.core.domains import Candidates
from tvbandits.core.protocols import Domain, Expert
from tvbandits.forgetting.aging import Aging, Constant
from tvbandits.forgetting.event_trigger import EventTrigger
from tvbandits.gp.fitting.online import Every
from tvbandits.gp.kernels.structure import inputs
from tvbandits.gp.kernels.validation import check_kernel
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.gp.posteriors.state_space import StateSpace
from tvbandits.queries.plans import QueryPlan


@dataclass(frozen=True)
class Recipe:
    """The parts of a policy.

    Parameters
    ----------
    domain : Domain
        Where it may play.
    kernel : scikit-learn kernel
        Prior covariance of the reward: over points, or over [point, time] where it is built from
        `OnSpace`, `OnTime` or `Drift`. See `mean` for its unit.
    noise_variance : float
        Noise variance of a reward told without a variance of its own (unit of reward squared).
    aging : Aging
        Effective noise variance of an old observation.
    posterior : Exact, Nystrom or StateSpace
        How the posterior is computed: exactly, on a dictionary of inducing points, or, for structured
        kernels, by a Kalman filter.
    confidence : Confidence
        The width beta.
    mean : float or "online"
        A number is the fixed prior mean of the reward, with the kernel in the unit of reward squared.
        "online" learns a centre and a scale from the rewards seen; the kernel then describes the
        standardised reward.
    expert, queries : Expert and QueryPlan, optional
        Whom to ask after every tell, and about which points.
    ask_about : "played" or "domain"
        What the query plan chooses from: the points played so far, or all of the domain (of one that is
        not finite, points drawn from it anew and those played).
    lead : float
        A decision at time t takes the ages of observations as of t - lead, though never before the
        newest one: 0 is the age at the decision; 1 is the convention of SparQ-GP-UCB, which decides
        for step t + 1 with the ages of step t.
    reuse_answers : bool
        Keep the expert's answers and age them like rewards; otherwise each query replaces the last.
    most_answers : int, optional
        Keep the latest so many of them at the most.
    pool_size : int, optional
        Of the points played, the plan chooses from all; beyond this many of them, only those that those
        in the pool do not determine join it, so that a step's cost stops growing.
    learn : Every, optional
        Learns how fast the reward changes from what is seen: the numbers of a kernel that sees time, by
        log evidence, or else the pace of the aging map, by its predictions. As given they are the start.
    informed_width : float, optional
        The width is at most this in a decision before which a question was answered: then the questions
        explore, and what is played stays plausible under the full width.
    reset : EventTrigger, optional
        Forgets everything older than a reward that is an event; nothing does by default.
    batch : BatchRule
        When a batch of points ends; one point by default.
    minimum_batch : int
        With P > 1, `ask` first returns batches of P most uncertain points, until no variance exceeds
        1/P of the noise variance: from then on no batch of BBKB is smaller than P (C - 1) ([BB],
        section 4).
    largest_batch : int
        A batch ends here at the latest.
    """

    domain: Domain
    kernel: Any
    noise_variance: float
    aging: Aging = field(default_factory=Constant)
    posterior: Exact | Nystrom | StateSpace = field(default_factory=Exact)
    confidence: Confidence = field(default_factory=Theory)
    mean: float | Literal["online"] = "online"
    expert: Expert | None = None
    queries: QueryPlan | None = None
    ask_about: Literal["played", "domain"] = "played"
    lead: float = 0.0
    reuse_answers: bool = False
    most_answers: int | None = None
    pool_size: int | None = None
    learn: Every | None = None
    informed_width: float | None = None
    reset: EventTrigger | None = None
    batch: BatchRule = field(default_factory=One)
    minimum_batch: int = 1
    largest_batch: int = 10_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", as_confidence(self.confidence))
        for name, needs, called in _FACES:
            _check_face(name, getattr(self, name), needs, called)
        _check_positive("noise_variance", self.noise_variance)
        if self.mean != "online" and not is_finite_number(self.mean):
            raise ValueError(f'mean must be a finite number or "online", got {self.mean!r}')
        if self.ask_about not in ("played", "domain"):
            raise ValueError(f'ask_about must be "played" or "domain", got {self.ask_about!r}')
        width = self.informed_width
        if width is not None and not (is_finite_number(width) and width >= 0):
            raise ValueError(f"informed_width must be finite and not negative, got {width!r}")
        if not (is_finite_number(self.lead) and self.lead >= 0):
            raise ValueError(f"lead must be finite and not negative, got {self.lead!r}")
        if (self.expert is None) != (self.queries is None):
            missing = "expert" if self.expert is None else "queries"
            raise ValueError(
                f"an expert needs a query plan, and a query plan an expert: {missing} is None"
            )
        for name in ("minimum_batch", "largest_batch"):
            _check_count(name, getattr(self, name))
        for name in ("pool_size", "most_answers"):
            if getattr(self, name) is not None:
                _check_count(name, getattr(self, name))
        if isinstance(self.batch, LocalRatio) and not isinstance(self.domain, Candidates):
            raise ValueError("the local batch rule needs a finite domain: give Candidates")
        points = self.domain.sample(32, np.random.default_rng(0))
        known = isinstance(self.kernel, Kernel)  # of anything else, `check_kernel` says what it is
        check_kernel(self.kernel, inputs(self.kernel, points, np.arange(32.0)) if known else points)


_FACES = (
    ("domain", "a domain such as Candidates(X) or Box(bounds)", "maximise"),
    ("aging", "an aging map such as Window(last=20)", "__call__"),
    ("posterior", "Exact(), Nystrom() or StateSpace()", "condition"),
    ("confidence", 'a width: a number, "theory" or a Confidence', "__call__"),
    ("batch", "a batch rule such as One() or GlobalRatio(2.0)", "monitor"),
    ("expert", "an object with a method query(X, t), or None", "query"),
    ("learn", "a rule such as Every(30), or None", "due"),
    ("reset", "a trigger such as EventTrigger(), or None", "__call__"),
    ("queries", "a query plan such as KDPP(), or None", "choose"),
)
"""The parts: what each must be, and the method that tells it."""


def _check_face(name: str, part: object, needs: str, method: str) -> None:
    """Raise a `ValueError` unless `part` is an object (not a class) with the method."""
    if part is None and needs.endswith("None"):
        return
    if isinstance(part, type) or not callable(getattr(part, method, None)):
        raise ValueError(f"{name} must be {needs}; got {part!r}")


def _check_positive(name: str, value: object) -> None:
    if not (is_finite_number(value) and value > 0):  # type: ignore[operator]
        raise ValueError(f"{name} must be positive and finite, got {value!r}")


def _check_count(name: str, value: object) -> None:
    if not (isinstance(value, int | np.integer) and value >= 1):
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
