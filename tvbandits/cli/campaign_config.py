"""A campaign as a person writes it down: a TOML file with the sites, the policy, the clock, the expert.

How it begins, too. All keys stand in `docs/campaign-toml.md`.
"""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import RBF, Matern

from tvbandits.acquisition.limits import Limit
from tvbandits.bandit.bandit import Bandit
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.clock import Clock
from tvbandits.campaign.names import Names
from tvbandits.campaign.store.places import place_of
from tvbandits.campaign.store.store import check_name
from tvbandits.cli.options import escaped
from tvbandits.datasets.tables.readings import finite_column
from tvbandits.datasets.tables.sensor_field import find_degrees, places_text, points_of
from tvbandits.datasets.tables.spreadsheets import read_spreadsheet
from tvbandits.domains.box import Box
from tvbandits.domains.candidates import Candidates, CandidatesInContext
from tvbandits.domains.domain import Domain
from tvbandits.domains.parameters import Integer
from tvbandits.domains.space import Arms, Space
from tvbandits.experts.budgeted import Budgeted
from tvbandits.experts.protocol import Expert
from tvbandits.io import check_regular, naming
from tvbandits.policies import POLICIES
from tvbandits.policies.names import find_spec, instance_of, load, means_none, parse_call
from tvbandits.policies.setting import Policy
from tvbandits.validation import (
    LARGEST_VALUE,
    as_floats,
    choice,
    describe,
    finite_number,
    is_infinite,
    of_kind,
    positive_number,
    require,
    several,
)

# What may stand in which part of the file.
KEYS: dict[str, tuple[str, ...]] = {
    "": ("campaign", "clock", "domain", "expert", "limits", "policy"),
    "campaign": ("drop_after", "history", "move_cost", "title", "unit"),
    "domain": (
        "arms",
        "box",
        "context",
        "control",
        "coordinates",
        "decimal",
        "safe",
        "sites",
        "space",
    ),
    "limits": ("at_least", "at_most", "each", "name", "noise_sd", "noise_variance", "probability"),
    "policy": (
        *("kernel", "length_scale", "minimize", "name", "noise_sd", "noise_variance", "options"),
        *("seed", "smoothness"),
    ),
    "clock": ("origin", "unit"),
    "expert": ("budget", "maker"),
}


def read_config(
    path: Path, allowed: str | None = None
) -> tuple[Bandit, Clock | None, dict[str, str]]:
    """The campaign that a file describes: its bandit, its clock, and what is kept with it.

    Kept are the names of sites and coordinates, the text itself, and the expert.

    Parameters
    ----------
    path : Path
    allowed : str, optional
        The maker of an expert that may be imported.

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
        for name in json.loads(about.get("names", "[]")):
            check_name("the name of each site", name)
        expert = _expert(said.get("expert", {}), allowed)
        scale_unit = about.get("length_unit", "")
        bandit = _bandit(said["policy"], domain, expert, "expert" in said, scale_unit)
        bandit = _under_limits(bandit, said.get("limits"), said["domain"].get("safe", ()), about)
        if (control := said["domain"].get("control")) is not None:
            bandit = bandit.with_options(control=Names(domain, about).points([control])[0])
        clock = Clock(**said["clock"]) if "clock" in said else None
        own = said.get("campaign", {})
        about |= _shown(own)
        bandit = bandit.with_options(move_cost=own["move_cost"]) if "move_cost" in own else bandit
        bandit = bandit.with_options(max_history=own["history"]) if "history" in own else bandit
    maker = said.get("expert", {}).get("maker", "")
    return bandit, clock, {**about, "config": text, "expert": maker}


def _shown(said: Mapping[str, Any]) -> dict[str, str]:
    """Title and unit, and after how many units of time a point is given up."""
    found = {key: said[key] for key in ("title", "unit") if key in said}
    for key, value in found.items():
        of_kind(f"[campaign] {key}", value, str, "a text")
    if "drop_after" in said:
        found["drop_after"] = repr(positive_number("[campaign] drop_after", said["drop_after"]))
    return found


def _check_keys(part: str, said: Any) -> None:
    of_kind(f"[{part}]", said, Mapping, "a part of its own")
    for key, inside in said.items():
        if key not in KEYS[part]:
            where = f"[{part}] " if part else ""
            own = "; those of one policy stand in [policy.options]" if part == "policy" else ""
            raise ValueError(f"{where}unknown {key!r}; there are: {', '.join(KEYS[part])}{own}")
        if not part:
            for each in inside if key == "limits" and isinstance(inside, list) else [inside]:
                _check_keys(key, each)


def _domain(said: Mapping[str, Any], folder: Path) -> tuple[Domain, dict[str, str]]:
    kinds = [kind for kind in ("sites", "arms", "box", "space") if kind in said]
    if len(kinds) != 1:
        raise ValueError(f"[domain] must say one of sites, arms, box, space; got {kinds or 'none'}")
    context = _parameters("context", said.get("context", {}))
    if kinds == ["arms"]:
        if context:
            raise ValueError("[domain] arms have no context")
        arms = Arms(said["arms"])
        return arms, {"names": json.dumps(arms.names), "coordinates": json.dumps(arms.names)}
    if kinds == ["sites"]:
        sites, about = _sites(
            folder / str(said["sites"]), said.get("coordinates"), said.get("decimal")
        )
        if not context:
            return sites, about
        named = [*json.loads(about["coordinates"]), *context]
        domain: Domain = CandidatesInContext(sites, context)
        return domain, about | {"coordinates": json.dumps(named)}
    if kinds == ["box"]:
        box = Box(said["box"], context=context)
        return box, {"coordinates": json.dumps(box.coordinate_names)}
    space = Space(context=context, **_parameters("space", said["space"]))
    return space, {"coordinates": json.dumps(space.names)}


def _parameters(part: str, given: Any) -> dict[str, Any]:
    of_kind(part, given, Mapping, "a table of names")
    return {name: _parameter(name, value) for name, value in given.items()}


def _parameter(name: str, given: Any) -> Any:
    if isinstance(given, list):
        return given if all(isinstance(each, str) for each in given) else tuple(given)
    whole: Any = given.get("whole") if isinstance(given, Mapping) and len(given) == 1 else None
    good = isinstance(whole, list) and len(whole) == 2
    require(good, name, "[low, high], { whole = [low, high] } or words", given)
    return Integer(*whole)


def _sites(
    path: Path, coordinates: list[str] | None, decimal: str | None
) -> tuple[Candidates, dict[str, str]]:
    """Sites of a CSV: their coordinates, and their names."""
    with naming(path):
        frame = read_spreadsheet(path, decimal, dtype=str, keep_default_na=False)
        first = frame.columns[0]
        name = next((c for c in frame.columns if str(c).lower() in ("site", "name", "id")), None)
        words = pd.to_numeric(frame[first], errors="coerce").isna().any()
        if name is None and coordinates is None and words:
            name = first  # whatever it is called: station, sensor, ...
        columns = [c for c in frame.columns if c != name]
        if coordinates is not None:
            columns = [str(c) for c in several("coordinates", coordinates, "a list of columns")]
        missing = [c for c in columns if c not in frame.columns]
        if missing:
            raise ValueError(f"there is no column {missing[0]!r}; there are: {[*frame.columns]}")
        if not columns:
            raise ValueError(f"there must be columns of coordinates beside {first!r}")
        names = [str(each).strip() for each in (range(len(frame)) if name is None else frame[name])]
        if len(set(names)) < len(names):
            raise ValueError("two sites have one name")
        places = pd.DataFrame(
            {str(c): finite_column(frame[c], str(c)) for c in columns}, index=names
        )
        sites = Candidates(points_of(places))
    degrees = find_degrees(places.columns)
    about = {"names": json.dumps(names), "coordinates": json.dumps([*places.columns])}
    if degrees is not None:
        others = [each for each in places.columns if each not in degrees]
        about["coordinates"] = json.dumps(["km east", "km north", *others])
        about["given"] = json.dumps(places.to_dict("list"))
        about["length_unit"] = "km"
        about["places"] = places_text(places.columns)
    return sites, about


NO_MODEL = "{} has no model of the reward, and no campaign can be made of it"


def _with_a_model(where: str, spec: str) -> tuple[Policy, str]:
    """The policy of "name:key=value,...", and the spec with the name as it is known."""
    known = find_spec("policy", spec, POLICIES) or ""
    policy = POLICIES.get(known.partition(":")[0])
    if policy is None:
        raise ValueError(f"{where} must be one that `tvbandits policies` lists, got {spec!r}")
    if "kernel" not in inspect.signature(policy.recipe).parameters:
        raise ValueError(NO_MODEL.format(policy.name))
    return policy, known


def _bandit(said: Mapping[str, Any], domain: Domain, expert: Any, asks: bool, unit: str) -> Bandit:
    if "name" not in said:
        raise ValueError("[policy] must say name")
    policy, spec = _with_a_model("[policy] name", str(said["name"]))
    signature = inspect.signature(policy.recipe)
    options = _options(policy, spec, said)
    if policy.asks:
        options["expert"] = expert
    elif asks:
        asking = [each.name for each in POLICIES.values() if each.asks]
        raise ValueError(f"{policy.name} asks no expert; those that do are {', '.join(asking)}")
    more = {key: said[key] for key in ("seed", "minimize") if key in said}
    more["kernel"] = _kernel(said, domain, policy.learns_kernel, unit)
    more["noise_variance"] = _noise_variance(said)
    try:
        # Others are of `Options` (`Policy.bandit`).
        own = {name: each for name, each in options.items() if name in signature.parameters}
        signature.bind(domain, **more, **own)
    except TypeError as error:  # an option without which it is nothing
        raise ValueError(f"[policy.options] {policy.name}: {error}") from error
    made = policy.bandit(domain=domain, **more, **options)
    if not isinstance(made, Bandit):
        raise ValueError(NO_MODEL.format(policy.name))
    return made


def _under_limits(bandit: Bandit, said: Any, safe: Any, about: Mapping[str, str]) -> Bandit:
    """The bandit under the limits of [[limits]], from the places that are safe on."""
    start = several("safe", safe, "a list of places")
    if said is None and not start:
        return bandit
    if said is None:
        raise ValueError("[domain] safe is for a campaign with [[limits]]")
    if not isinstance(said, list):
        raise ValueError("limits are said as [[limits]], each a part of its own")
    limits = []
    for given in said:
        given = {"name": "", "noise_variance": _noise_variance(given, "limits"), **given}
        limits.append(Limit(**{key: each for key, each in given.items() if key != "noise_sd"}))
    places = Names(bandit.recipe.domain, about).points(start) if start else ()
    return bandit.with_options(limits=limits, safe=places)


def options_of(policy: Policy) -> dict[str, inspect.Parameter]:
    """What may be said of a policy besides the keys that all have."""
    known = policy.parameters.items()
    return {name: each for name, each in known if name not in KEYS["policy"]}


def _options(policy: Policy, spec: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """Options out of the name ("frugal-gp-ucb:queries_per_step=1") and [policy.options]."""
    known, apart = options_of(policy), said.get("options", {})
    of_kind("[policy.options]", apart, Mapping, "a part of its own")
    found = parse_call(known, spec)
    for option, value in apart.items():
        if option not in known:
            there = ", ".join(known)
            raise ValueError(
                f"[policy.options] unknown {option!r} for {policy.name}; there are: {there}"
            )
        if option in found:
            raise ValueError(f"[policy.options] {option} is given twice")
        found[option] = None if means_none(value, known[option].annotation) else value
    return found


def _noise_variance(said: Mapping[str, Any], part: str = "policy") -> float | None:
    """Of a reading, out of one of two keys; without them, or with "none", it is learned."""
    keys = [key for key in ("noise_variance", "noise_sd") if key in said]
    if len(keys) > 1:
        raise ValueError(f"[{part}] must say one of noise_variance and noise_sd, got both")
    if not keys or means_none(said[keys[0]], float | None):
        return None
    value = finite_number(f"[{part}] {keys[0]}", said[keys[0]], above=0.0, high=LARGEST_VALUE)
    return value**2 if keys == ["noise_sd"] else value


def _kernel(said: Mapping[str, Any], domain: Domain, learns: bool, unit: str) -> Any:
    """The kernel that is said; None, where the policy finds one for itself."""
    scale = said.get("length_scale")
    if scale is None:
        given = [key for key in ("kernel", "smoothness") if key in said]
        if learns and not given:
            return None
        if isinstance(domain, Space) and not given:
            return domain.kernel()
        of = f" in {unit}" if unit else ", in the unit of the coordinates"
        raise ValueError(f"[policy] must say length_scale{of}")
    scales = as_floats(scale, "[policy] length_scale")
    if scales.size == 0 or scales.ndim > 1 or not (np.isfinite(scales) & (scales > 0)).all():
        one = "positive, one number for all coordinates or one for each"
        raise ValueError(f"[policy] length_scale must be {one}, got {describe(scale)}")
    name = choice("[policy] kernel", str(said.get("kernel", "rbf")).lower(), ("rbf", "matern"))
    if name == "rbf":
        if "smoothness" in said:
            raise ValueError('[policy] smoothness is for kernel = "matern"')
        return RBF(scale)
    nu = said.get("smoothness", 2.5)
    return Matern(scale, nu=nu if is_infinite(nu) else positive_number("[policy] smoothness", nu))


def _expert(said: Mapping[str, Any], allowed: str | None) -> Expert | None:
    maker = str(said.get("maker", ""))
    if allowed is not None:
        check_expert(allowed, maker)
    if not said:
        return None
    if not maker:
        raise ValueError('[expert] must say maker = "package.module:name"')
    if allowed is None:
        raise ValueError(
            f"the expert {maker} is your own code: say so by --expert {maker}, and it is imported"
        )
    return made_expert(load(maker), said.get("budget"))


def check_expert(said: str, wanted: str) -> None:
    """Raise a `ValueError` unless --expert is the one of the configuration: nothing else is imported."""
    if said != wanted:
        need = f"must be {wanted}, as in its" if wanted else "is for a campaign with a maker in its"
        raise ValueError(f"--expert {need} configuration, got {said}")


def made_expert(maker: Any, budget: int | None) -> Expert:
    """An expert from what makes it of nothing, or from itself, within a budget of questions."""
    expert = instance_of(maker)
    good = callable(getattr(expert, "query", None)) and not isinstance(expert, type)
    require(good, "[expert] what the maker gives", "an object with query(X, t)", expert)
    found: Expert = expert if budget is None else Budgeted(expert, total=budget)
    return found


# --- a new one --------------------------------------------------------------------------------

DRAFT = """# What `tvbandits campaign new FILE --config {path}` begins. All keys: docs/campaign-toml.md.
[domain]
sites = {sites}  # a table with a column `site`; the others are coordinates, in one unit
# or arms = ["red", "green"], or box = [[0, 10], [0, 5]], or a part [domain.space]

[policy]
name = {name}
{noise}  # standard deviation of a reading, in its unit; learned where it is left out
{scale}length_scale = 1.0  # in the unit of the coordinates, km of degrees; one, or one for each

[policy.options]
{options}

# [campaign]
# unit = "ppb"  # of a reward; it stands on the axes

# [clock]  # then times may be dates
# unit = "1h"
# origin = "2026-01-01"
"""


def draft(file: str, path: Path, spec: str, sites: str | None, noise_sd: float | None) -> None:
    """Write the file for "name:key=value,..."; all other options of the policy stand in comments."""
    policy, spec = _with_a_model("--policy", spec)
    known = options_of(policy)
    lines = {name: f"# {name} = ..." for name in known}
    for name, option in known.items():
        if isinstance(option.default, bool | int | float | str):
            lines[name] = f"# {name} = {json.dumps(option.default)}"
    for name, value in parse_call(known, spec).items():
        lines[name] = f"{name} = {json.dumps('none' if value is None else value)}"
    text = DRAFT.format(
        path=path,
        sites=json.dumps(sites or "sites.csv", ensure_ascii=False),
        name=json.dumps(policy.name),
        noise="# noise_sd = 0.1" if noise_sd is None else f"noise_sd = {noise_sd}",
        scale="# " if policy.learns_kernel else "",
        options="\n".join(lines.values()),
    )
    place_of(file)  # which may be none at all
    for place in (Path(file), path):
        if place.exists():
            raise ValueError(f"{place}: there is something already")
    path.write_text(text, encoding="utf-8")


def new(file: str, config: Path, expert: str | None, who: str | None, like: str | None) -> None:
    """Begin a campaign, with what one like it has learned."""
    bandit, clock, about = read_config(config, expert)
    if like is not None:
        with Campaign.open(like) as other, naming(Path(like)):
            bandit = bandit.learn_from(other)
    with Campaign.create(file, bandit, clock=clock, about=about, who=who) as campaign:
        placed = f"; {about['places']}" if "places" in about else ""
        print(escaped(f"{file}: a campaign on {campaign.recipe.domain!r}{placed}"))
