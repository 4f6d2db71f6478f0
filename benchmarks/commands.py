"""Processor time of whole commands: what a person with a phone, or a cron job, pays for each call.

    python -m benchmarks.commands [--sites 40] [--readings 300] [--repeats 5]

User and system time of the process, from its start to its end, median over the repeats: `status`,
`history`, `tell` and `ask` of a campaign of a sensor network; `compare` up to its first complaint; a
first policy in a script.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tvbandits import Campaign

CONFIG = """
[domain]
sites = "sites.csv"
[policy]
name = "{policy}"
noise_sd = 0.1
{more}
"""

POLICIES = {
    "gp-ucb": "length_scale = 2.0",
    "adaptive-gp-ucb": "",
    "frugal-gp-ucb": "options = { budget = 2 }\n[expert]\nbrought = true",
}

SCRIPTS = {
    "import tvbandits": "import tvbandits",
    "first policy": "import tvbandits; tvbandits.policies.gp_ucb",
    "first bandit": (
        "import tvbandits as tv; tv.policies.adaptive_gp_ucb(tv.Candidates([[0.0]]), None, 0.1)"
    ),
}


def spent(*command: str, folder: Path) -> float:
    """Processor seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def begun(folder: Path, policy: str, sites: int, readings: int) -> str:
    """A campaign with so many readings, asked for one by one; its file."""
    rng = np.random.default_rng(0)
    rows = [f"s{i},{x:.3f},{y:.3f}" for i, (x, y) in enumerate(rng.uniform(0, 10, (sites, 2)))]
    (folder / "sites.csv").write_text("\n".join(["site,east,north", *rows]) + "\n")
    (folder / "c.toml").write_text(CONFIG.format(policy=policy, more=POLICIES[policy]))
    file, words = f"{policy}.db", ("-m", "tvbandits", "campaign", "new")
    command = [sys.executable, *words, file, "--config", "c.toml"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    with Campaign.open(folder / file) as campaign:
        for t in range(1, readings + 1):
            X = campaign.ask(float(t))
            y = np.sin(X[:, 0] + t / 20) + 0.1 * rng.standard_normal(len(X))
            campaign.tell(X, y, float(t))
    return file


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.commands")
    parser.add_argument("--sites", type=int, default=40)
    parser.add_argument("--readings", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    calls: dict[str, list[str]] = {name: ["-c", script] for name, script in SCRIPTS.items()}
    compare = "-m tvbandits compare drifting-bump --policy gp-ucb --seeds 0"
    calls["compare"] = compare.split()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for policy in POLICIES:
            file = begun(folder, policy, given.sites, given.readings)
            told = ["tell", file, "--site", "s0", "--reward", "0.5", "--at"]
            for verb in (["status", file], ["history", file], told, ["ask", file]):
                calls[f"{policy} {verb[0]}"] = ["-m", "tvbandits", "campaign", *verb]
        for what, command in calls.items():
            late = what.endswith(" tell")  # each a reading of its own
            times = [[f"{given.readings}.{i}"] if late else [] for i in range(1, given.repeats + 1)]
            found = [spent(*command, *each, folder=folder) for each in times]
            print(f"{what:24} {statistics.median(found):6.2f} s")


if __name__ == "__main__":
    main()
