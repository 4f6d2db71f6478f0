"""Optuna studies on the drifting bump, with `TVSampler` and with Optuna's own samplers.

    python -m benchmarks.optuna_samplers [--trials 200] [--seeds 5]

The bump of SparQ-GP-UCB on [-50, 50], a trial a step, with the noise of `drifting-bump`. The table has
the mean regret of all trials and of the last half, with half of its 95% interval, and seconds of
processor time a trial. GPSampler is left out where PyTorch is not installed.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import optuna

from benchmarks.harness import cell, heading, line, make_parser
from tvbandits.datasets import DriftingBump
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.integrations.optuna import TVSampler

SAMPLERS: dict[str, Callable[[int], optuna.samplers.BaseSampler]] = {
    "TVSampler": lambda seed: TVSampler(time="step", seed=seed),
    "TPESampler": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "GPSampler": lambda seed: optuna.samplers.GPSampler(seed=seed),
    "RandomSampler": lambda seed: optuna.samplers.RandomSampler(seed=seed),
}


def play_study(sampler: optuna.samplers.BaseSampler, trials: int, seed: int) -> np.ndarray:
    """Return the regret of every trial (trials,) of one study."""
    bump, regrets = DriftingBump(candidates=0), []

    def objective(trial: optuna.Trial) -> float:
        t = trial.number + 1
        trial.set_user_attr("step", t)
        x = np.array([[trial.suggest_float("x", -50.0, 50.0)]])
        reward = float(bump.value(x, t)[0])
        regrets.append(bump.best(t) - reward)
        noise = float(bump.noise_variance) ** 0.5 * keyed_normal(seed, 1, x, t)[0]
        return reward + float(noise)

    optuna.create_study(sampler=sampler, direction="maximize").optimize(objective, n_trials=trials)
    return np.array(regrets)


def main() -> None:
    """Play the studies, and print the table."""
    options = make_parser(__doc__, trials=200, seeds=5).parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    heading("sampler", "regret", "regret, last half", "seconds a trial")
    for name, make in SAMPLERS.items():
        if name == "GPSampler" and find_spec("torch") is None:
            continue
        start = time.process_time()
        runs = np.array(
            [play_study(make(seed), options.trials, seed) for seed in range(options.seeds)]
        )
        seconds = (time.process_time() - start) / runs.size
        late = runs[:, options.trials // 2 :]
        line(name, cell(runs.mean(axis=1)), cell(late.mean(axis=1)), f"{seconds:.3f}")


if __name__ == "__main__":
    main()
