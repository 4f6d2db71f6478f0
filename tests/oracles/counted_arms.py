"""Beta-Binomial models of arms with counts, restated with scipy.stats, by model and by arm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import betabinom


class PlainModel:
    """A model with one discount and one prior strength, for arms that are read hour by hour."""

    def __init__(self, arms: int, discount: float, strength: float, log_prior: float) -> None:
        self.discount, self.strength, self.evidence = discount, strength, log_prior
        self.successes, self.expected = [0.0] * arms, [0.0] * arms
        self.level, self.level_trials, self.is_new = 0.5, 1.0, True

    def ratio(self, a: int) -> float:
        return (self.strength + self.successes[a]) / (self.strength + self.expected[a])

    def beta(self, a: int, level: float) -> tuple[float, float]:
        """Return the parameters of the Beta distribution of the success probability of an arm."""
        alpha, mean = self.strength + self.successes[a], min(level * self.ratio(a), 0.999)
        return alpha, alpha * (1 - mean) / mean

    def fade(self, steps: float) -> None:
        factor = self.discount**steps
        self.successes = [factor * each for each in self.successes]
        self.expected = [factor * each for each in self.expected]
        self.level_trials = max(factor * self.level_trials, 1.0)

    def read(self, counts: dict[int, tuple[int, int]]) -> None:
        """Update the model by (k, n) of some arms at one time."""
        K = sum(k for k, _ in counts.values())
        usual_trials = sum(n * self.ratio(a) for a, (_, n) in counts.items())
        total_trials = self.level_trials + usual_trials
        usual = (self.level_trials * self.level + K) / total_trials
        before = usual if self.is_new else self.level
        is_single = len(counts) == 1
        level = before if is_single else (1 + K) / (1 / before + usual_trials)
        chances = {a: betabinom(n, *self.beta(a, level)) for a, (_, n) in counts.items()}
        self.evidence += sum(chances[a].logpmf(k) for a, (k, _) in counts.items())
        if not is_single:
            self.evidence -= log_chance_of_sum(self, counts, level)
        for a, (k, n) in counts.items():
            self.successes[a] += k
            self.expected[a] += n * level
        self.level, self.level_trials, self.is_new = usual, total_trials, False


def log_chance_of_sum(model: PlainModel, counts: dict[int, tuple[int, int]], level: float) -> float:
    """Return the log probability of all successes, under a Beta distribution of matching moments."""
    N, K = sum(n for _, n in counts.values()), sum(k for k, _ in counts.values())
    mean = variance = 0.0
    for a, (_, n) in counts.items():
        alpha, beta = model.beta(a, level)
        mean += n / N * alpha / (alpha + beta)
        variance += (n / N) ** 2 * alpha * beta / (alpha + beta) ** 2 / (alpha + beta + 1)
    size = mean * (1 - mean) / variance - 1
    return float(betabinom(N, mean * size, (1 - mean) * size).logpmf(K))


class PlainArms:
    """All models, with weights and random draws."""

    def __init__(self, arms: int, models: list[tuple[float, float, float]]) -> None:
        self.arms, self.models = arms, [PlainModel(arms, *each) for each in models]

    def step(self, counts: dict[int, tuple[int, int]], steps: float = 1.0) -> None:
        for model in self.models:
            if not model.is_new:
                model.fade(steps)
            model.read(counts)

    def weights(self) -> Any:
        """Return the weights of the models; binomial coefficients cancel."""
        largest = max(model.evidence for model in self.models)
        parts = [math.exp(model.evidence - largest) for model in self.models]
        return np.array(parts) / sum(parts)

    def means(self) -> Any:
        return np.array(
            [
                [a / (a + b) for a, b in (m.beta(arm, m.level) for arm in range(self.arms))]
                for m in self.models
            ]
        )

    def draw(self, count: int, rng: np.random.Generator) -> Any:
        """Draw success probabilities (count, arms): first models by weight, then each arm."""
        numbers = rng.choice(len(self.models), count, p=self.weights())
        rows = []
        for i in numbers:
            model = self.models[i]
            rows.append([rng.beta(*model.beta(arm, model.level)) for arm in range(self.arms)])
        return np.array(rows)
