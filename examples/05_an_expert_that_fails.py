"""An expert that fails: slow, partial, wrong and down, and what each wrapper does about it.

The sensors of a network lose a third of their answers, understate their noise tenfold, and are down for
a fortnight. Each wrapper does one thing: `Retrying` asks again, `Calibrated` estimates how far to trust
the sensors, and `Budgeted` keeps the budget. Whatever happens, the bandit continues.

The wrappers give you a budget that holds, a report that the sensors are not as good as they say, and a
second question where an answer was lost.
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


def sensors(faults: tuple[Faults, ...]) -> SensorExpert:
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
        f"  asked {info.queries.total_asked}, answered {info.queries.total_answered}, "
        f"refused {info.queries.total_refused}, {info.queries.failures} days without anybody, "
        f"cost {info.queries.total_cost:.0f}"
    )
    return np.array(regret)


def main(out: Path = HERE) -> float:
    failing = sensors(FAULTS)
    calibrated = Calibrated(failing)
    careful = Budgeted(Retrying(calibrated, attempts=3), per_step=8)
    curves = {}
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always", ExpertDownWarning)
        for name, expert in (
            ("sound sensors", sensors(())),
            ("failing sensors", failing),
            ("failing, wrapped", careful),
        ):
            print(name)
            curves[name] = play(expert)
    for each in messages:
        print(f"warned once: {each.message}")
    print(calibrated.report())

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    days = np.arange(1, DAYS + 1)
    for (name, regret), dashes in zip(curves.items(), ("-", ":", "--"), strict=True):
        axes.plot(days, np.cumsum(regret) / days, "k", linestyle=dashes, label=name)
    axes.axvspan(*DOWN, color="0.9", label="nobody can be reached")
    axes.set(xlabel="day t", ylabel="average regret $R_t / t$ (ppb)", ylim=(0, None))
    axes.legend()
    figure.savefig(out / "05_an_expert_that_fails.png", dpi=120)
    for name, regret in curves.items():
        print(f"{name}: average regret {regret.mean():.2f} ppb a day")
    return float(curves["failing, wrapped"].mean())


if __name__ == "__main__":
    main()
