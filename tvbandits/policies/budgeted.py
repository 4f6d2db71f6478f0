"""Bkb, bbkb, gp_bucb."""

from __future__ import annotations

from typing import Any, Literal, Unpack

from tvbandits.acquisition.batch_rules import Batching, GlobalRatio, LocalRatio, ProductRatio
from tvbandits.acquisition.confidence import BBKBWidth, BKBWidth, Confidence
from tvbandits.bandit.bandit import Bandit
from tvbandits.core.protocols import Domain
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.policies.setting import Common, Setting, assembled


def bkb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    oversampling: float = 2.0,
    keep: bool = True,
    **common: Unpack[Common],
) -> Bandit:
    """BKB (Calandriello 2019), Algorithm 1: a dictionary by leverage scores, drawn at every step.

    Parameters
    ----------
    oversampling : float
        q, by which leverage scores are multiplied.
    keep : bool
        Keep inducing points while they are few; False draws every dictionary afresh, as the paper does.
    """
    sparse = Nystrom(oversampling, keep)
    return assembled(domain, kernel, noise_variance, _budgeted(common, sparse, BKBWidth()))


def bbkb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    ratio_bound: float = 2.0,
    rule: Literal["global", "local"] = "global",
    oversampling: float = 2.0,
    keep: bool = True,
    minimum_batch: int = 1,
    **common: Unpack[Common],
) -> Bandit:
    """BBKB (Calandriello 2020), Algorithm 1: batches that end before deviations halve.

    Parameters
    ----------
    ratio_bound : float
        C, the bound on the ratio of deviations at a batch's start to those in it.
    rule : "global" or "local"
        Lemma 1, or Lemma 1 and then Lemma 3.
    oversampling, keep
        As for `bkb`.
    minimum_batch : int
        P: start by uncertainty sampling until no batch can be smaller.
    """
    if rule not in ("global", "local"):
        raise ValueError(f'rule must be "global" or "local", got {rule!r}')
    batch = GlobalRatio(ratio_bound) if rule == "global" else LocalRatio(ratio_bound)
    sparse = Nystrom(oversampling, keep)
    budgeted = _budgeted(common, sparse, BBKBWidth())
    return assembled(
        domain, kernel, noise_variance, budgeted, batching=Batching(batch, minimum_batch)
    )


def gp_bucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    ratio_bound: float = 2.0,
    minimum_batch: int = 1,
    **common: Unpack[Common],
) -> Bandit:
    """GP-BUCB (Desautels 2014): GP-UCB in batches, on the exact posterior."""
    return assembled(
        domain,
        kernel,
        noise_variance,
        common,
        batching=Batching(ProductRatio(ratio_bound), minimum_batch),
    )


def _budgeted(common: Common, posterior: Nystrom, theory: Confidence) -> Common:
    """The keywords with the sparse posterior, and the paper's own width for "theory"."""
    width = common.get("confidence", "theory")
    made: Common = {"posterior": posterior, **common}
    made["confidence"] = theory if width == "theory" else width
    return made


def make_bkb(setting: Setting, oversampling: float = 2.0, keep: bool = True) -> Bandit:
    common = setting.with_width(BKBWidth(delta=1 / max(setting.horizon, 2)))
    return bkb(*setting.parts, oversampling=oversampling, keep=keep, **common)


def make_bbkb(
    setting: Setting,
    ratio_bound: float = 2.0,
    rule: str = "global",
    oversampling: float = 2.0,
    keep: bool = True,
    minimum_batch: int = 1,
) -> Bandit:
    return bbkb(
        *setting.parts,
        ratio_bound=ratio_bound,
        rule=rule,  # type: ignore[arg-type]
        oversampling=oversampling,
        keep=keep,
        minimum_batch=minimum_batch,
        **setting.with_width(BBKBWidth(delta=1 / max(setting.horizon, 2))),
    )


def make_gp_bucb(setting: Setting, ratio_bound: float = 2.0, minimum_batch: int = 1) -> Bandit:
    return gp_bucb(
        *setting.parts, ratio_bound=ratio_bound, minimum_batch=minimum_batch, **setting.common
    )
