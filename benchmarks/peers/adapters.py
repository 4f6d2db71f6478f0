"""Adapters with ask and tell for each peer. Points are in the unit of the box; rewards are maximized.

Each package is used as its documentation says, with its defaults, and without drift or noise if it has
no parameter for them. Where a package has contexts, time is one. All adapters have the same interface:
`Adapter(bounds, horizon, seed)`, `ask(t) -> x (d,)`, `tell(x, y, t)`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

warnings.filterwarnings("ignore")

# Number of random points at the start of peers without their own.
FIRST = 15


class _Peer:
    def __init__(self, bounds: Any, horizon: int, seed: int) -> None:
        self.bounds, self.horizon = np.asarray(bounds, dtype=float), horizon
        self.d, self.seed = len(self.bounds), seed
        self.rng = np.random.default_rng(seed)
        self.X: list[Any] = []
        self.t: list[float] = []
        self.y: list[float] = []

    def uniform(self) -> Any:
        return self.rng.uniform(*self.bounds.T)

    def tell(self, x: Any, y: float, t: float) -> None:
        self.X, self.y, self.t = [*self.X, np.asarray(x)], [*self.y, y], [*self.t, t]


class WDBOAlgo(_Peer):
    """An adapter for wdbo-algo, which tells and then cleans as in its quick start."""

    package = "wdbo-algo"

    def __init__(self, bounds: Any, horizon: int, seed: int) -> None:
        super().__init__(bounds, horizon, seed)
        import gpytorch
        import torch
        from wdbo_algo.optimizer import WDBOOptimizer

        torch.manual_seed(seed)
        np.random.seed(seed)
        torch.set_default_dtype(torch.float64)  # its data are doubles, its bounds of the default
        torch.set_num_threads(1)
        self.optimizer = WDBOOptimizer(
            self.bounds,
            gpytorch.kernels.MaternKernel,
            gpytorch.kernels.MaternKernel,
            spatial_kernel_args=[2.5],
            temporal_kernel_args=[1.5],
            n_initial_observations=FIRST,
        )

    def ask(self, t: float) -> Any:
        # Time runs from 0 to 1 over a run, as in its paper's experiments.
        return np.clip(self.optimizer.next_query(t / self.horizon), *self.bounds.T)

    def tell(self, x: Any, y: float, t: float) -> None:
        self.optimizer.tell(np.asarray(x), t / self.horizon, y)
        self.optimizer.clean(t / self.horizon)


class BoTorchTime(_Peer):
    """An adapter for BoTorch: a SingleTaskGP over points and time, and its upper confidence bound."""

    package = "botorch"

    def ask(self, t: float) -> Any:
        if len(self.y) < FIRST:
            return self.uniform()
        import torch
        from botorch.acquisition import UpperConfidenceBound
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from botorch.optim import optimize_acqf
        from gpytorch.mlls import ExactMarginalLogLikelihood

        torch.set_num_threads(1)
        torch.manual_seed(self.seed + len(self.y))
        low, high = self.bounds.T
        unit = (np.array(self.X) - low) / (high - low)
        Z = torch.tensor(np.column_stack([unit, np.array(self.t) / self.horizon]))
        y = torch.tensor(self.y, dtype=torch.double)[:, None]
        model = SingleTaskGP(Z, y)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        box = torch.stack([torch.zeros(self.d + 1), torch.ones(self.d + 1)]).double()
        points, _ = optimize_acqf(
            UpperConfidenceBound(model, beta=4.0),
            box,
            q=1,
            num_restarts=5,
            raw_samples=128,
            fixed_features={self.d: t / self.horizon},
        )
        return low + points[0, : self.d].detach().numpy() * (high - low)


class OptunaGP(_Peer):
    """An adapter for Optuna's GPSampler, which does not use time."""

    package = "optuna"

    def __init__(self, bounds: Any, horizon: int, seed: int) -> None:
        super().__init__(bounds, horizon, seed)
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.study = optuna.create_study(direction="maximize", sampler=self.sampler())
        self.trial: Any = None

    def sampler(self) -> Any:
        from optuna.samplers import GPSampler

        return GPSampler(seed=self.seed, deterministic_objective=False)

    def ask(self, t: float) -> Any:
        self.trial = self.study.ask()
        return np.array(
            [self.trial.suggest_float(f"x{i}", *map(float, b)) for i, b in enumerate(self.bounds)]
        )

    def tell(self, x: Any, y: float, t: float) -> None:
        self.study.tell(self.trial, y)


class OptunaTPE(OptunaGP):
    """An adapter for Optuna's default sampler, which does not use time."""

    def sampler(self) -> Any:
        from optuna.samplers import TPESampler

        return TPESampler(seed=self.seed)


class Skopt(_Peer):
    """An adapter for scikit-optimize's Optimizer, which does not use time, and minimizes."""

    package = "scikit-optimize"

    def __init__(self, bounds: Any, horizon: int, seed: int) -> None:
        super().__init__(bounds, horizon, seed)
        from skopt import Optimizer

        self.optimizer = Optimizer([tuple(map(float, b)) for b in self.bounds], random_state=seed)

    def ask(self, t: float) -> Any:
        return np.array(self.optimizer.ask(), dtype=float)

    def tell(self, x: Any, y: float, t: float) -> None:
        # Rounding errors of its search may leave the box, which its own check refuses.
        self.optimizer.tell(np.clip(x, *self.bounds.T).tolist(), -y)


class AxClient(_Peer):
    """An adapter for Ax's client with its default strategy, which does not use time."""

    package = "ax-platform"

    def __init__(self, bounds: Any, horizon: int, seed: int) -> None:
        super().__init__(bounds, horizon, seed)
        import logging

        from ax.api.client import Client
        from ax.api.configs import RangeParameterConfig

        logging.disable(logging.WARNING)
        self.client = Client(random_seed=seed)
        self.client.configure_experiment(
            parameters=[
                RangeParameterConfig(
                    name=f"x{i}", parameter_type="float", bounds=(float(low), float(high))
                )
                for i, (low, high) in enumerate(self.bounds)
            ]
        )
        self.client.configure_optimization(objective="reward")
        self.index = 0

    def ask(self, t: float) -> Any:
        (self.index, values), *_ = self.client.get_next_trials(max_trials=1).items()
        return np.array([values[f"x{i}"] for i in range(self.d)], dtype=float)

    def tell(self, x: Any, y: float, t: float) -> None:
        self.client.complete_trial(self.index, raw_data={"reward": y})


class _Clock:
    """A clock in place of the module `time` in Xopt, which uses wall time."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class XoptTime(_Peer):
    """An adapter for Xopt's time-dependent upper confidence bound, with the settings of its example.

    `time_dependent_bo.ipynb` in its documentation has two random plays, decisions a step of 0.1 seconds
    ahead, 10 seconds of data, beta 0.01, moves of at most 0.1 of a range, and the samples and restarts
    of the search.
    """

    package = "xopt"
    step = 0.1

    def __init__(self, bounds: Any, horizon: int, seed: int) -> None:
        super().__init__(bounds, horizon, seed)
        import torch
        from xopt import VOCS
        from xopt.generators.bayesian import TDUpperConfidenceBoundGenerator, time_dependent

        torch.manual_seed(seed)
        torch.set_num_threads(1)
        self.names = [f"x{i}" for i in range(self.d)]
        vocs = VOCS(
            variables={
                n: list(map(float, b)) for n, b in zip(self.names, self.bounds, strict=True)
            },
            objectives={"y": "MINIMIZE"},
        )
        self.generator = TDUpperConfidenceBoundGenerator(
            vocs=vocs, beta=0.01, added_time=self.step, forgetting_time=10.0
        )
        self.generator.n_monte_carlo_samples = 128
        self.generator.numerical_optimizer.n_restarts = 20
        self.generator.max_travel_distances = [0.1] * self.d
        self.clock = time_dependent.time = _Clock()

    def ask(self, t: float) -> Any:
        if len(self.y) < 2:
            return self.uniform()
        self.clock.now = self.step * (t - 1)  # the decision is for one step later
        point = self.generator.generate(1)[0]
        return np.array([point[name] for name in self.names], dtype=float)

    def tell(self, x: Any, y: float, t: float) -> None:
        import pandas as pd

        super().tell(x, y, t)
        row = dict(zip(self.names, map(float, x), strict=True)) | {"y": -y, "time": self.step * t}
        self.generator.add_data(pd.DataFrame([row]))


class BayesOpt(_Peer):
    """An adapter for bayesian-optimization, which does not use time."""

    package = "bayesian-optimization"

    def __init__(self, bounds: Any, horizon: int, seed: int) -> None:
        super().__init__(bounds, horizon, seed)
        from bayes_opt import BayesianOptimization

        self.names = [f"x{i}" for i in range(self.d)]
        self.optimizer = BayesianOptimization(
            f=None,
            pbounds={n: tuple(b) for n, b in zip(self.names, self.bounds, strict=True)},
            random_state=seed,
            allow_duplicate_points=True,
            verbose=0,
        )

    def ask(self, t: float) -> Any:
        if len(self.y) < FIRST:
            return self.uniform()
        point = self.optimizer.suggest()
        return np.array([point[name] for name in self.names])

    def tell(self, x: Any, y: float, t: float) -> None:
        super().tell(x, y, t)
        self.optimizer.register(params=dict(zip(self.names, x, strict=True)), target=y)


PEERS = {
    "wdbo-algo": WDBOAlgo,
    "botorch-time": BoTorchTime,
    "optuna-gp": OptunaGP,
    "optuna-tpe": OptunaTPE,
    "scikit-optimize": Skopt,
    "ax": AxClient,
    "xopt-td": XoptTime,
    "bayesian-optimization": BayesOpt,
}
