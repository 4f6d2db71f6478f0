"""Loading of saved bandits, with a test step, so that a bad file is refused before a run starts."""

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
    """Return a saved bandit, which continues as if it had never stopped, bit for bit.

    A copy plays one step without its expert, so that a file whose parts do not fit together is refused.

    Parameters
    ----------
    path : path
        The path of a file that `Bandit.save` has written.
    trusted : mapping of str to object, optional
        Your own parts of the bandit, such as its expert, by "module:name". Nothing is imported because a
        file names it: a part that is not passed here is an error with its name.

    Raises
    ------
    SavedFileError
        If the file is not a saved bandit, was changed, fails the step, or exceeds the limit of unpacked
        bytes (`tvbandits.io`); the message names the file and the reason.
    OSError
        If the file cannot be read.

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
        bandit, copy = from_bytes(data, trusted), from_bytes(data, trusted)
    except ValueError as error:
        raise SavedFileError(f"{file}: {error}") from error
    if not (hasattr(bandit, "ask") and hasattr(bandit, "tell")):
        raise SavedFileError(f"{file}: it contains no bandit, but a {type(bandit).__name__}")
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            _play_step(copy)
    except Exception as error:
        raise SavedFileError(f"{file}: it cannot play a step: {describe_error(error)}") from error
    return bandit


def _play_step(bandit: Any) -> None:
    """Call the methods of a bandit once, without its expert.

    Raises
    ------
    Exception
        Any error of these methods, or a `ValueError` about a number that is NaN or infinite.
    """
    has_posterior = isinstance(bandit, Bandit)
    if has_posterior and bandit.recipe.query_config is not None:
        recipe = replace(
            bandit.recipe, query_config=replace(bandit.recipe.query_config, expert=None)
        )
        bandit = Bandit.from_state(recipe, bandit.state)
    repr((bandit, bandit.info, bandit.history))
    _check_numbers(bandit)
    context = _choose_context(bandit.recipe.domain if has_posterior else bandit.domain)
    n = 2 if has_posterior and bandit.recipe.options.control is not None else 1
    with contextlib.suppress(NothingAvailableError):  # not a fault of the file
        X = bandit.ask(n=n, context=context)
        mean = np.zeros(len(X))
        if has_posterior:
            mean, deviation = bandit.predict(X)
            if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
                raise ValueError(f"it predicts {mean} +- {deviation} at {X.tolist()}")
        bandit.tell(X, _make_rewards(bandit, mean))
        if has_posterior:  # a posterior that includes the new rewards
            bandit.recommend(context=context)
        _check_numbers(bandit)  # an overflow in this step would fail in the next one


def _make_rewards(bandit: Any, mean: Array) -> Array | Counted:
    """Return rewards (n,) of the bandit's kind: plain numbers, proportions or event counts."""
    rewards = Dataset.empty(1)
    if isinstance(bandit, Bandit):
        rewards = bandit.state.readings
    elif isinstance(bandit, PolicyAdapter):
        rewards = bandit.record.rewards
    if not rewards.trials.any():
        return mean
    ones = np.ones(len(mean))
    is_proportion = np.isfinite(rewards.trials[-1])
    return rate(np.clip(mean, 0.0, 1.0), ones) if is_proportion else count(np.abs(mean), ones)


def _check_numbers(bandit: Any) -> None:
    """Raise a `ValueError` if the model of a bandit contains NaN."""
    encoder = Encoder()
    encoder.encode(bandit.state.posterior if isinstance(bandit, Bandit) else bandit)
    if any(array.dtype.kind == "f" and np.isnan(array).any() for array in encoder.arrays):
        raise ValueError("its model contains NaN")


def _choose_context(domain: Any) -> Any:
    """Return a context for a domain: the middle of a measured one, or that of a random candidate."""
    if parameters := domain.context_parameters:
        middle = np.array([0.5])
        return {name: each.values(each.from_unit(middle))[0] for name, each in parameters.items()}
    if columns := list(domain.context_columns):
        return domain.sample(1, np.random.default_rng(0))[0, columns]
    return None
