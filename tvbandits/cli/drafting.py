"""How a campaign begins, and its file for a policy, written with all of its keys, to be filled in."""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvbandits.campaign.campaign import Campaign
from tvbandits.cli.campaign_actions import check_expert
from tvbandits.cli.campaign_config import options_of, read_config
from tvbandits.policies.names import known_spec, load, parse_call
from tvbandits.policies.registry import POLICIES

DRAFT = """# What `tvbandits campaign new FILE --config {path}` begins; keys after "#" may be left out.

[domain]
sites = {sites}  # a table with a column `site`; the others are coordinates, in one unit
# Columns called latitude and longitude are turned into km: length_scale is in km then.
# coordinates = ["x", "y"]  # those columns alone
# box = [[0, 10], [0, 5]]  # or intervals, instead of sites
# [domain.space]  # or parameters with names
# temperature = [10, 80]
# count = {{ whole = [1, 5] }}
# mode = ["a", "b"]

[policy]
name = {name}
noise_sd = {noise}  # standard deviation of a reading, in its unit; or noise_variance, its square
{length_scale}length_scale = 1.0  # in the unit of the coordinates; one, or one for each{learned}
# kernel = "rbf"  # or "matern", with smoothness = 2.5
# minimise = false
# seed = 0

[policy.options]
{options}

# [campaign]
# title = "Ozone in town"
# unit = "ppb"  # of a reward; it stands on the axes
# drop_after = 6  # in units of time: what was asked and not told by then is given up; or "6h"

# [clock]  # then times may be dates
# unit = "1h"
# origin = "2026-01-01"
{expert}"""

EXPERT = """
# [expert]
# brought = true  # people carry the questions; or
# maker = "package.module:name"  # code of your own
# budget = 200  # questions in all
"""


@dataclass(frozen=True)
class Draft:
    """A file to be written: a policy ("name:key=value,..."), the sites, the deviation of a reading."""

    policy: str
    sites: str | None
    noise_sd: float | None


def drafted(spec: str, path: Path, sites: str | None, noise_sd: float | None) -> str:
    """The text of a file for "name:key=value,...".

    Raises
    ------
    ValueError
        If there is no such policy or option, or no campaign can be made of the policy.
    """
    spec = known_spec("policy", spec, POLICIES) or ""
    policy = POLICIES.get(spec.partition(":")[0])
    if policy is None:
        raise ValueError("--policy must be one that `tvbandits policies` lists")
    kernel = inspect.signature(policy.recipe).parameters.get("kernel")
    if kernel is None:
        raise ValueError(
            f"{policy.name} has no model of the reward, and no campaign can be made of it"
        )
    known = options_of(policy)
    given = parse_call(known, spec)
    lines = [f"{name} = {_value(value)}" for name, value in given.items()]
    for name, parameter in known.items():
        default = parameter.default
        if name not in given and isinstance(default, bool | int | float | str):
            lines.append(f"# {name} = {_value(default)}")
        elif name not in given and default is parameter.empty:
            raise ValueError(f"{policy.name} needs {name}: --policy {policy.name}:{name}=...")
        elif name not in given:
            lines.append(f"# {name} = ...")
    learns = policy.learns_kernel
    return DRAFT.format(
        path=path,
        sites=_value(sites or "sites.csv"),
        name=_value(policy.name),
        noise=_value(0.1 if noise_sd is None else noise_sd),
        length_scale="# " if learns else "",
        learned="; learned where it is left out" if learns else "",
        options="\n".join(lines),
        expert=EXPERT if policy.asks else "",
    )


def _value(value: Any) -> str:
    """As TOML says it, which is as JSON does, but for None."""
    return json.dumps("none" if value is None else value, ensure_ascii=False)


def new(
    file: str,
    config: Path | None,
    expert: str | None,
    who: str | None,
    draft: Draft | None = None,
) -> None:
    """Begin a campaign; from a policy the file that it is about is written first."""
    if draft is not None:
        path = Path("campaign.toml") if config is None else config
        if path.exists():
            raise ValueError(f"{path}: there is something already; leave --policy out to use it")
        text = drafted(draft.policy, path, draft.sites, draft.noise_sd)
        path.write_text(text, encoding="utf-8")
        if draft.sites is None or draft.noise_sd is None:
            print(f"{path} is written: fill in sites and noise_sd, and then")
            print(f"tvbandits campaign new {file} --config {path}")
            return
        print(f"{path} is written")
        config = path
    if config is None:
        raise ValueError("give --config FILE, or --policy NAME to have one written")

    def handed_over(name: str) -> Any:
        if expert is None:
            raise ValueError(
                f"the expert {name} is your own code: say so by --expert {name}, and it is imported"
            )
        check_expert(expert, name)
        return load(name)

    planned = read_config(config, handed_over)
    if expert is not None:
        check_expert(expert, planned.about["expert"])
    more = {"clock": planned.clock, "about": planned.about, "who": who}
    with Campaign.create(file, planned.bandit, **more) as campaign:  # type: ignore[arg-type]
        about = campaign.about
        print("; ".join([f"{file}: a campaign on {campaign.recipe.domain!r}", *_in_km(about)]))


def _in_km(about: Mapping[str, str]) -> list[str]:
    """What became of latitude and longitude, and what that means for a length scale."""
    if not about.get("length_unit"):
        return []
    scale = tomllib.loads(about["config"])["policy"].get("length_scale")
    said = "length scales are in km" if scale is None else f"length_scale = {scale} is in km"
    return [about["places"], said]
