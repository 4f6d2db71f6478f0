"""Bandits read from files: a file is refused where it is read, not in the middle of a run."""

from __future__ import annotations

import contextlib
import os
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from tvbandits.bandit.adapter import PolicyAdapter
from tvbandits.bandit.bandit import Bandit
from tvbandits.counts import Counted, count, rate
from tvbandits.data import Dataset
from tvbandits.domains.availability import NothingAvailableError
from tvbandits.io import (
    Encoder,
    SavedFileError,
    TrustedParts,
    check_regular,
    check_size,
    from_bytes,
)
from tvbandits.validation import Array, describe_error, file_path


def load(path: str | os.PathLike[str], trusted: TrustedParts | None = None) -> Any:
    """Go on with a bandit that was saved, bit for bit as if nothing had happened in between.

    A twin of it plays a step, without its expert: a file whose parts do not fit together is refused.

    Parameters
    ----------
    path : path
        Of a file that `Bandit.save` has written.
    trusted : mapping of str to object, optional
        The user's own parts of it, such as its expert, by "module:name". A file is never believed about
        what to import: what it names and is not handed over is an error that says the name.

    Raises
    ------
    SavedFileError
        If it is no such file, is not as it was written, cannot play on, or is larger than the limit
        of unpacked bytes (`tvbandits.io`); the message names the file and the reason.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import tvbandits
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [1.0]])
    >>> bandit = policies.adaptive_gp_ucb(sites, kernel=RBF(1.0), noise_variance=0.01)
    >>> bandit.save("campaign.saved")
    >>> print(tvbandits.load("campaign.saved").state == bandit.state)
    True
    """
    file = file_path("path", path)
    try:
        check_regular(file)
        check_size("unpacked_bytes", file.stat().st_size)
        data = file.read_bytes()
        bandit, twin = from_bytes(data, trusted), from_bytes(data, trusted)
    except ValueError as error:
        raise SavedFileError(f"{file}: {error}") from error
    if not (hasattr(bandit, "ask") and hasattr(bandit, "tell")):
        raise SavedFileError(f"{file}: it holds no bandit, but {type(bandit).__name__}")
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            _play_a_step(twin)
    except Exception as error:
        raise SavedFileError(f"{file}: it cannot play on: {describe_error(error)}") from error
    return bandit


def _play_a_step(bandit: Any) -> None:
    """Let a bandit look at itself, and ask and tell without its expert.

    Raises
    ------
    Exception
        Whatever it meets, or a `ValueError` for a number that is none.
    """
    fitted = isinstance(bandit, Bandit)
    if fitted and bandit.recipe.query_config is not None:
        alone = replace(
            bandit.recipe, query_config=replace(bandit.recipe.query_config, expert=None)
        )
        bandit = Bandit.from_state(alone, bandit.state)
    repr((bandit, bandit.info, bandit.history))
    _check_numbers(bandit)
    context = _some_context(bandit.recipe.domain if fitted else bandit.domain)
    least = 2 if fitted and bandit.recipe.options.control is not None else 1
    with contextlib.suppress(NothingAvailableError):  # which may be true
        X = bandit.ask(n=least, context=context)
        mean = np.zeros(len(X))
        if fitted:
            mean, deviation = bandit.predict(X)
            if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
                raise ValueError(f"it predicts {mean} +- {deviation} at {X.tolist()}")
        bandit.tell(X, _as_told(bandit, mean))
        if fitted:  # what is told comes into it
            bandit.recommend(context=context)
        _check_numbers(bandit)  # what overflows in a step fails in the next one


def _as_told(bandit: Any, mean: Array) -> Array | Counted:
    """Return rewards (n,) of the kind that a bandit was told: plain numbers, shares or events."""
    rewards = Dataset.empty(1)
    if isinstance(bandit, Bandit):
        rewards = bandit.state.readings
    elif isinstance(bandit, PolicyAdapter):
        rewards = bandit.record.rewards
    if not rewards.trials.any():
        return mean
    once = np.ones(len(mean))
    is_share = np.isfinite(rewards.trials[-1])
    return rate(np.clip(mean, 0.0, 1.0), once) if is_share else count(np.abs(mean), once)


def _check_numbers(bandit: Any) -> None:
    """Raise a `ValueError` if the model of a bandit holds a number that is NaN."""
    encoder = Encoder()
    encoder.encode(bandit.state.posterior if isinstance(bandit, Bandit) else bandit)
    if any(each.dtype.kind == "f" and np.isnan(each).any() for each in encoder.arrays):
        raise ValueError("its model holds numbers that are NaN")


def _some_context(domain: Any) -> Any:
    """A context that a domain has: in the middle of what is measured, or of some candidate."""
    if parts := domain.context_parameters:
        middle = np.array([0.5])
        return {name: part.values(part.from_unit(middle))[0] for name, part in parts.items()}
    if columns := list(domain.context_columns):
        return domain.sample(1, np.random.default_rng(0))[0, columns]
    return None
