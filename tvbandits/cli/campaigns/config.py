"""A campaign as a person writes it down: a TOML file with the sites, the policy, the clock, the expert.

[domain]
sites = "sites.csv"          # a column `site` with names, the others are coordinates; or
# box = [[0, 10], [0, 5]]    # intervals; or
# [domain.space]             # parameters with names
# temperature = [10, 80]
# mode = ["a", "b"]
# count = { whole = [1, 5] }

[policy]
name = "tv-gp-ucb"
kernel = "matern"            # rbf, matern (with smoothness = 2.5), or learned from nothing: leave out
length_scale = 2.0           # one, or one for each coordinate, in the unit of the sites
noise = 0.1                  # deviation of a reading, in its unit
seed = 0
[policy.options]             # as `tvbandits policies` lists them
confidence = 2.0

[clock]
unit = "1h"
origin = "2024-01-01"

[expert]
maker = "mylab.probes:make"  # or: brought = true, and answers come by `tvbandits campaign answer`
budget = 200                 # questions in all
"""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.gaussian_process.kernels import RBF, Matern

from tvbandits.bandit.bandit import Bandit
from tvbandits.core.arrays import positive_number
from tvbandits.core.clock import Clock
from tvbandits.core.coercion import shown
from tvbandits.core.domains import Box, Candidates, Integer, Space
from tvbandits.core.files.reading import check_regular, naming, read_csv, unpacked
from tvbandits.core.protocols import Domain, Expert
from tvbandits.experts.wrappers.budgeted import Budgeted
from tvbandits.policies.catalogue.registry import POLICIES
from tvbandits.policies.names import known_spec

KEYS: dict[str, tuple[str, ...]] = {
    "": ("clock", "domain", "expert", "policy"),
    "domain": ("box", "coordinates", "sites", "space"),
    "policy": (
        "kernel",
        "length_scale",
        "minimise",
        "name",
        "noise",
        "options",
        "seed",
        "smoothness",
    ),
    "clock": ("origin", "unit"),
    "expert": ("brought", "budget", "maker"),
}
"""What may stand in which part of the file."""

Load = Callable[[str], Any]
"""`load("package.module:name")`: what somebody has said may be imported."""


@dataclass(frozen=True)
class Planned:
    """What a file says.

    Attributes
    ----------
    bandit : Bandit
    clock : Clock or None
    about : mapping of str to str
        What is kept with the campaign: names of sites and coordinates, the text itself, the expert.
    """

    bandit: Bandit
    clock: Clock | None
    about: Mapping[str, str]


def read_config(path: Path, load: Load) -> Planned:
    """The campaign that a file describes.

    Parameters
    ----------
    path : Path
    load : callable
        Imports the maker of the expert.

    Raises
    ------
    ValueError
        If the file cannot be read, or something in it cannot be used; the message names file and part.
    """
    with naming(path):
        check_regular(path)
        text = path.read_text(encoding="utf-8")
        said = tomllib.loads(text)
        _check_keys("", said)
        for part in ("domain", "policy"):
            if part not in said:
                raise ValueError(f"there must be a part [{part}]")
        domain, about = _domain(said["domain"], path.parent)
        expert = _expert(said.get("expert", {}), load)
        bandit = _bandit(said["policy"], domain, expert, "expert" in said)
        clock = _clock(said.get("clock"))
    maker = said.get("expert", {}).get("maker", "")
    return Planned(bandit, clock, {**about, "config": text, "expert": maker})


def _check_keys(part: str, said: Any) -> None:
    if not isinstance(said, Mapping):
        raise ValueError(f"[{part}] must be a part of its own, got {said!r}")
    for key, inside in said.items():
        if key not in KEYS[part]:
            where = f"[{part}] " if part else ""
            raise ValueError(f"{where}unknown {key!r}; there are: {', '.join(KEYS[part])}")
        if not part:
            _check_keys(key, inside)


def _domain(said: Mapping[str, Any], folder: Path) -> tuple[Domain, dict[str, str]]:
    kinds = [kind for kind in ("sites", "box", "space") if kind in said]
    if len(kinds) != 1:
        raise ValueError(f"[domain] must say one of sites, box and space, got {kinds or 'none'}")
    if kinds == ["sites"]:
        return _sites(folder / str(said["sites"]), said.get("coordinates"))
    if kinds == ["box"]:
        box = Box(said["box"])
        names = [f"x{i}" for i in range(box.dimension)]
        return box, {"coordinates": json.dumps(names)}
    parameters = {name: _parameter(given) for name, given in said["space"].items()}
    space = Space(**parameters)
    names = [f"x{i}" for i in range(space.dimension)]
    return space, {"coordinates": json.dumps(names)}


def _parameter(given: Any) -> Any:
    if isinstance(given, Mapping):
        if set(given) != {"whole"} or len(given["whole"]) != 2:
            raise ValueError(
                f"a parameter is [low, high], {{ whole = [low, high] }} or words: {given}"
            )
        return Integer(*given["whole"])
    words = isinstance(given, list) and all(isinstance(each, str) for each in given)
    return given if words else tuple(given)


def _sites(path: Path, coordinates: list[str] | None) -> tuple[Candidates, dict[str, str]]:
    """Sites of a CSV: their coordinates, and their names."""
    with naming(path), unpacked(path) as stream:
        frame = read_csv(stream, separators=",;\t")
        first = frame.columns[0]
        name = next((c for c in frame.columns if str(c).lower() in ("site", "name", "id")), None)
        if name is None and coordinates is None and frame[first].dtype.kind not in "iuf":
            name = first  # whatever it is called: station, sensor, ...
        columns = coordinates or [c for c in frame.columns if c != name]
        missing = [c for c in columns if c not in frame.columns]
        if missing:
            raise ValueError(f"there is no column {missing[0]!r}; there are: {[*frame.columns]}")
        words = [c for c in columns if frame[c].dtype.kind not in "iuf"]
        if words or not columns:
            raise ValueError(f"the column {(words or [first])[0]!r} must hold numbers")
        sites = Candidates(frame[columns].to_numpy(dtype=float))
        names = [str(each) for each in (frame[name] if name is not None else range(len(frame)))]
        if len(set(names)) < len(names):
            raise ValueError("two sites have one name")
    return sites, {"names": json.dumps(names), "coordinates": json.dumps([*map(str, columns)])}


def _bandit(said: Mapping[str, Any], domain: Domain, expert: Any, asks: bool) -> Bandit:
    for needed in ("name", "noise"):
        if needed not in said:
            raise ValueError(f"[policy] must say {needed}")
    name = known_spec("policy", str(said["name"]), POLICIES) or ""
    if name not in POLICIES:
        raise ValueError(f"[policy] name must be one that `tvbandits policies` lists, got {name!r}")
    policy = POLICIES[name]
    options = dict(said.get("options", {}))
    if policy.asks:
        options["expert"] = expert
    elif asks:
        asking = [each.name for each in POLICIES.values() if each.asks]
        raise ValueError(f"{name} asks no expert; those that do are {', '.join(asking)}")
    known = policy.parameters
    for option in options:
        if option not in known and option != "expert":
            raise ValueError(f"[policy.options] unknown {option!r}; there are: {', '.join(known)}")
    signature = inspect.signature(policy.recipe)
    no_model = f"{name} has no model of the reward, and no campaign can be made of it"
    if "kernel" not in signature.parameters:
        raise ValueError(no_model)
    noise = positive_number("[policy] noise", said["noise"])
    more = {key: said[key] for key in ("seed", "minimise") if key in said}
    given = (domain, _kernel(said, domain), noise**2)
    try:
        signature.bind(*given, **more, **options)
    except TypeError as error:  # an option without which it is nothing
        raise ValueError(f"[policy.options] {name}: {error}") from error
    made = policy.recipe(*given, **more, **options)
    if not isinstance(made, Bandit):
        raise ValueError(no_model)
    return made


def _kernel(said: Mapping[str, Any], domain: Domain) -> Any:
    if isinstance(domain, Space) and "length_scale" not in said:
        return domain.kernel()
    scale = said.get("length_scale")
    name = str(said.get("kernel", "rbf")).lower()
    if name not in ("rbf", "matern"):
        raise ValueError(f'[policy] kernel must be "rbf" or "matern", got {name!r}')
    if scale is None:
        raise ValueError("[policy] must say length_scale, in the unit of the coordinates")
    if name == "rbf":
        return RBF(scale)
    return Matern(scale, nu=float(said.get("smoothness", 2.5)))


def _expert(said: Mapping[str, Any], load: Load) -> Expert | None:
    if not said:
        return None
    if said.get("brought"):
        if "maker" in said or "budget" in said:
            raise ValueError(
                "[expert] brought = true stands alone: questions are carried by people"
            )
        return None
    if "maker" not in said:
        raise ValueError('[expert] must say maker = "package.module:name", or brought = true')
    return made_expert(load(str(said["maker"])), said.get("budget"))


def made_expert(maker: Any, budget: int | None) -> Expert:
    """An expert from what makes it, or from itself, within a budget of questions."""
    makes = isinstance(maker, type) or not hasattr(maker, "query")
    try:
        expert = maker() if makes and callable(maker) else maker
    except TypeError as error:  # it is called with nothing
        raise ValueError(f"[expert] the maker {shown(maker)}: {error}") from error
    if isinstance(expert, type):
        expert = expert()
    if not callable(getattr(expert, "query", None)):
        raise ValueError(
            f"[expert] the maker must give an object with query(X, t), got {shown(expert)}"
        )
    found: Expert = expert if budget is None else Budgeted(expert, total=budget)
    return found


def _clock(said: Mapping[str, Any] | None) -> Clock | None:
    if said is None:
        return None
    return Clock(said.get("unit", "1h"), said.get("origin", "2024-01-01"))
