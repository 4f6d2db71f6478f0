"""The reference: a page for each topic with every public name, and a check that none is missing."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from public_names import public_names  # beside this file

PROMPT = re.compile(r"(?:^>>>.*\n(?:(?!>>>).+\n)*)+", re.MULTILINE)
"""Examples in the docstring of a module: each prompt, and the lines down to the next."""
UNDERLINED = re.compile(r"^(\w+)\n-{3,}$", re.MULTILINE)
"""A heading within a docstring, which is none of the page."""


class Topic(NamedTuple):
    """A page: its file, its title, what it is about, and its modules in the order of reading."""

    page: str
    title: str
    about: str
    modules: tuple[str, ...]


TOPICS = (
    Topic(
        "bandit",
        "Bandit",
        "A `Recipe` names the parts, a `Bandit` plays them, a `State` is what it learned.",
        (
            "tvbandits.bandit.bandit",
            "tvbandits.bandit",
            "tvbandits.acquisition.availability",
            "tvbandits.core.limits",
        ),
    ),
    Topic(
        "domains",
        "Domains and times",
        "The points that may be played, dates, and observations.",
        ("tvbandits.core.candidates", "tvbandits.core"),
    ),
    Topic(
        "learning",
        "Policies that learn or ask",
        "`adaptive_gp_ucb`, `frugal_gp_ucb`, `sparq_gp_ucb`.",
        ("tvbandits.policies.expert", "tvbandits.policies.expert", "tvbandits.policies.setting"),
    ),
    Topic(
        "drifting",
        "Policies that forget",
        "GP-UCB and its descendants: resets, windows, weights, drift.",
        ("tvbandits.policies.forgetting",),
    ),
    Topic(
        "budgeted",
        "Policies for many points",
        "Dictionaries and batches: `bkb`, `bbkb`, `tv_bbkb`, `gp_bucb`, `thompson`, `mini_gp_ucb`.",
        ("tvbandits.policies.budgeted",),
    ),
    Topic(
        "rivals",
        "Policies to compare with",
        "Baselines without a model, and algorithms of recent papers.",
        ("tvbandits.policies.baselines", "tvbandits.policies"),
    ),
    Topic(
        "posteriors",
        "Posteriors and kernels",
        "Mean and deviation of every point, from kernel and observations.",
        ("tvbandits.gp.posteriors", "tvbandits.gp"),
    ),
    Topic(
        "forgetting",
        "Forgetting",
        "Aging maps, and a trigger that forgets everything at once.",
        ("tvbandits.forgetting",),
    ),
    Topic(
        "acquisition",
        "Widths and batches",
        "How a posterior becomes the next point, or the next points.",
        ("tvbandits.acquisition.rules", "tvbandits.acquisition"),
    ),
    Topic(
        "queries",
        "Query plans",
        "Which points a bandit asks its expert about, and how many.",
        ("tvbandits.queries.plans", "tvbandits.queries"),
    ),
    Topic(
        "experts",
        "Experts",
        "The protocol of an expert, functions, and recorded answers.",
        (
            "tvbandits.core.protocols",
            "tvbandits.experts.functions",
            "tvbandits.experts",
            "tvbandits.experts.log",
        ),
    ),
    Topic(
        "wrappers",
        "Wrappers of experts",
        "Retries, budgets and calibration.",
        (
            "tvbandits.experts.asking",
            "tvbandits.experts.retrying",
            "tvbandits.experts.budgeted",
            "tvbandits.experts.calibrated",
        ),
    ),
    Topic(
        "sensors",
        "Sensors",
        "Stations as an expert, in this process or over MQTT.",
        ("tvbandits.experts.sensors",),
    ),
    Topic(
        "problems",
        "Problems",
        "Synthetic and simulated problems for comparisons.",
        ("tvbandits.datasets.synthetic", "tvbandits.datasets", "tvbandits.core.keyed_noise"),
    ),
    Topic(
        "tables",
        "Tables and networks",
        "Problems made of your readings, and of ozone measurements.",
        ("tvbandits.datasets.tables", "tvbandits.datasets.epa_ozone"),
    ),
    Topic(
        "comparison",
        "Comparisons",
        "Policies, problems and seeds go in; rows and figures come out.",
        ("tvbandits.comparison.compare", "tvbandits.comparison", "tvbandits.plots"),
    ),
    Topic(
        "campaign",
        "Campaigns",
        "A bandit that outlives its process, and the same over HTTP.",
        ("tvbandits.campaign.campaign", "tvbandits.campaign"),
    ),
    Topic(
        "integrations",
        "In other packages",
        "A sampler of Optuna and a generator of Xopt.",
        ("tvbandits.integrations",),
    ),
    Topic(
        "files",
        "Files",
        "Saved bandits, and the limits on every file that is read.",
        ("tvbandits.core.files",),
    ),
)
"""In the order of reading; the longest prefix of a module's name decides where it belongs."""


def _module_of(path: str, value: object) -> str:
    """The module that defines a public name; for a plain value, where it is offered."""
    defined = inspect.isclass(value) or inspect.isroutine(value)
    return str(getattr(value, "__module__", None)) if defined else path.rpartition(".")[0]


def _place(module: str) -> tuple[int, int] | None:
    """The topic of a module and the place within it: the longest prefix that fits decides."""
    fits = [
        (len(prefix), i, j)
        for i, topic in enumerate(TOPICS)
        for j, prefix in enumerate(topic.modules)
        if f"{module}.".startswith(f"{prefix}.")
    ]
    return max(fits)[1:] if fits else None


def _line(value: object) -> int:
    """Where a class or a function begins in its file."""
    try:
        return inspect.getsourcelines(value)[1]  # type: ignore[arg-type]
    except (OSError, TypeError):
        return 0


def by_topic() -> dict[Topic, dict[str, list[str]]]:
    """For each topic its modules in order, each with its public names as the source has them."""
    found: dict[Topic, dict[str, list[str]]] = {topic: {} for topic in TOPICS}
    placed = []
    for path, value in public_names().items():
        module = _module_of(path, value)
        place = _place(module)
        if place is None:
            raise PluginError(f"{path}: no topic of docs/making/reference.py has {module}")
        placed.append((*place, module, _line(value), path))
    for i, _, module, _, path in sorted(placed):
        found[TOPICS[i]].setdefault(module, []).append(path)
    return found


def _first_line(value: object) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0].replace("|", "\\|")


def _page(topic: Topic, modules: dict[str, list[str]]) -> str:
    """A table of all names of the topic, and below it each of them in full."""
    names = public_names()
    lines = [f"# {topic.title}\n", f"{topic.about}\n", "| name | what it is |", "|---|---|"]
    for path in (path for paths in modules.values() for path in paths):
        value = names[path]
        documented = inspect.isclass(value) or inspect.isroutine(value)
        said = _first_line(value) if documented else f"a value of `{path.rpartition('.')[0]}`"
        lines.append(f"| [`{path.rpartition('.')[2]}`][{path}] | {said} |")
    lines.append("")
    for module, paths in modules.items():
        text = (inspect.getdoc(importlib.import_module(module)) or "") + "\n"
        title, _, rest = text.partition("\n")
        lines += [f"## {title.rstrip('.')}\n", f"`{module}`\n"]
        lines.append(PROMPT.sub(r"```pycon\n\g<0>```\n", UNDERLINED.sub(r"**\1**\n", rest)))
        lines += [f"::: {path}\n    options:\n      heading_level: 3\n" for path in paths]
    return "\n".join(lines)


def _index(topics: Iterable[Topic]) -> str:
    """The page that leads to all others, which fits one screen."""
    lines = [
        "# Reference\n",
        "Every public name stands on one of these pages. The search field finds a name directly.\n",
        "| topic | what is there |",
        "|---|---|",
    ]
    lines += [f"| [{each.title}](reference/{each.page}.md) | {each.about} |" for each in topics]
    return "\n".join(lines)


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add a page for each topic, and the page that lists them."""
    print("the reference: reading every docstring", flush=True)
    topics = by_topic()
    for topic, modules in topics.items():
        uri = f"reference/{topic.page}.md"
        files.append(File.generated(config, uri, content=_page(topic, modules)))
    files.append(File.generated(config, "reference.md", content=_index(topics)))
    config.extra["public_names"] = sorted(public_names())
    return files


def on_env(env: Any, *, files: Files, **_: Any) -> Any:
    """Say that the pages are read, and how many are written now."""
    print(f"writing {len(files.documentation_pages())} pages", flush=True)
    return env


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Fail on a public name that no page describes."""
    pages = "".join(
        path.read_text(encoding="utf-8")
        for path in (Path(config.site_dir) / "reference").glob("*.html")
    )
    missing = [name for name in config.extra["public_names"] if f'id="{name}"' not in pages]
    if missing:
        raise PluginError(
            f"public names that the reference does not describe: {', '.join(missing)}"
        )
