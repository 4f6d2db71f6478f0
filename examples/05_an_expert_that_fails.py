"""An expert that fails: it loses answers, understates its noise, and is down, and wrappers help.

The sensors of a network lose three answers in ten, understate their noise tenfold, and are down for a
fortnight. Each wrapper does one thing: `Retrying` repeats a failed query, `Calibrated` estimates the
true variance of the answers and corrects them, and `Budgeted` limits the number of queries. The bandit
continues in any case.
"""

import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tvbandits import Expert, ExpertDownWarning, policies
from tvbandits.datasets import ozone_network
from tvbandits.experts import (
    Budgeted,
    Calibrated,
    Faults,
    Retrying,
    SensorExpert,
    StubTransport,
    stations_at,
)
from tvbandits.experts.keyed_noise import keyed_normal

HERE = Path(__file__).resolve().parent
DAYS, DOWN, NOISE = 120, (60.0, 74.0), 1.0
NETWORK = ozone_network(days=DAYS)
FAULTS = (Faults(loss=0.3), Faults(variance_factor=0.1), Faults(down=DOWN))


def make_sensors(faults: tuple[Faults, ...]) -> SensorExpert:
    """Return an expert whose stations have some faults."""
    transport = StubTransport(
        NETWORK.values, NETWORK.labels, noise_variance=10 * NOISE, faults=faults
    )
    stations = stations_at(NETWORK.points, NETWORK.labels, noise_variance=10 * NOISE)
    return SensorExpert(stations, transport, cost=1.0)


def play(expert: Expert) -> np.ndarray:
    """Return the regret of each day."""
    bandit = policies.frugal_gp_ucb(
        NETWORK.domain, noise_variance=NOISE, expert=expert, queries_per_step=4
    )
    regret = []
    for day in range(1, DAYS + 1):
        site = bandit.ask(day)
        level = NETWORK.value(site, day)
        bandit.tell(site, level + NOISE**0.5 * keyed_normal(0, 1, site, day), day)
        regret.append(NETWORK.best(day) - level[0])
    info = bandit.info
    print(
        f"  {info.queries.total_asked} queries, {info.queries.total_answered} answers, "
        f"{info.queries.total_refused} refusals, {info.queries.failures} days without an expert, "
        f"cost {info.queries.total_cost:.0f}"
    )
    return np.array(regret)


def main(folder: Path = HERE) -> float:
    failing = make_sensors(FAULTS)
    calibrated = Calibrated(failing)
    wrapped = Budgeted(Retrying(calibrated, attempts=3), per_step=8)
    curves = {}
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always", ExpertDownWarning)
        for name, expert in (
            ("sensors without faults", make_sensors(())),
            ("failing sensors", failing),
            ("failing sensors, wrapped", wrapped),
        ):
            print(name)
            curves[name] = play(expert)
    for message in messages:
        print(f"warning: {message.message}")
    print(calibrated.report())

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    days = np.arange(1, DAYS + 1)
    for (name, regret), dashes in zip(curves.items(), ("-", ":", "--"), strict=True):
        axes.plot(days, np.cumsum(regret) / days, "k", linestyle=dashes, label=name)
    axes.axvspan(*DOWN, color="0.9", label="sensors are down")
    axes.set(xlabel="day t", ylabel="average regret $R_t / t$ (ppb)", ylim=(0, None))
    axes.legend()
    figure.savefig(folder / "05_an_expert_that_fails.png", dpi=120)
    for name, regret in curves.items():
        print(f"{name}: average regret {regret.mean():.2f} ppb a day")
    return float(curves["failing sensors, wrapped"].mean())


if __name__ == "__main__":
    main()
