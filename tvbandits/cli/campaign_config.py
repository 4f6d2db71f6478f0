"""The configuration of a campaign: a TOML file with the sites, the policy, the clock and the expert.

`docs/campaign-toml.md` lists all keys.
"""

from __future__ import annotations

import inspect
import json
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import RBF, Matern

from tvbandits.acquisition.limits import Limit
from tvbandits.bandit.bandit import Bandit
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.names import Names
from tvbandits.campaign.store.databases import database_at
from tvbandits.campaign.store.store import check_name
from tvbandits.cli.output import escape
from tvbandits.cli.waiting import bar_if_slow
from tvbandits.clock import Clock, is_date_text, make_clock
from tvbandits.datasets.sensor_field import (
    describe_conversions,
    find_degrees,
    project_places,
    select_places,
    warn_of_degrees,
)
from tvbandits.datasets.tables.layout import (
    FileOptions,
    find_columns,
    find_station_columns,
    has_numbers,
    options_of_sites,
    read_ids,
    read_stations,
    read_times,
    stations_mask,
)
from tvbandits.datasets.tables.readings import finite_column, parse_times, quote_few
from tvbandits.datasets.tables.rounds import find_step
from tvbandits.datasets.tables.sheets import read_sheet
from tvbandits.domains.box import Box
from tvbandits.domains.candidates import Candidates, CandidatesInContext
from tvbandits.domains.domain import Domain
from tvbandits.domains.parameters import Integer, Log, Periodic
from tvbandits.domains.space import Arms, Space
from tvbandits.experts.budgeted import Budgeted
from tvbandits.experts.protocol import Expert
from tvbandits.io import check_regular, name_file_in_errors
from tvbandits.option_text import format_option
from tvbandits.policies import POLICIES
from tvbandits.policies.names import find_spec, instance_of, load, means_none, parse_call
from tvbandits.policies.setting import Policy
from tvbandits.validation import (
    LARGEST_VALUE,
    as_floats,
    as_list,
    check_choice,
    check_instance,
    check_part,
    describe,
    finite_number,
    is_finite_number,
    is_infinite,
    positive_number,
)

# The keys of each section of the file.
KEYS: dict[str, tuple[str, ...]] = {
    "": ("campaign", "clock", "domain", "expert", "limits", "policy"),
    "campaign": ("drop_after", "history", "move_cost", "title", "unit"),
    "domain": (
        "arms",
        "box",
        "context",
        "control",
        "coordinates",
        "read",
        "safe",
        "sites",
        "space",
    ),
    "limits": ("at_least", "at_most", "each", "name", "noise_sd", "noise_variance", "probability"),
    "policy": (
        *("kernel", "length_scale", "minimize", "name", "noise_sd", "noise_variance", "options"),
        *("seed", "smoothness"),
    ),
    "clock": ("origin", "unit", "zone"),
    "expert": ("budget", "maker"),
}

# Ranges of parameters, by the key of their table.
RANGES: dict[str, Callable[..., Any]] = {
    "interval": lambda low, high: (low, high),
    "log": Log,
    "periodic": Periodic,
    "whole": Integer,
}

# Headings of the names of sites.
NAMES = ("site", "name", "id", "station")

# A section of the file: values by key.
Section = Mapping[str, Any]


@dataclass(frozen=True)
class Configuration:
    """What a configuration file describes: a bandit, a clock, and the texts to store with a campaign.

    Attributes
    ----------
    path : Path
        The file, for error messages.
    sections : mapping
        What the file has, by section.
    domain : Domain
    expert : Expert or None
    clock : Clock or None
    about : dict of str to str
        The names of sites and coordinates, the file itself, and the name of the expert.
    """

    path: Path
    sections: Mapping[str, Section]
    domain: Domain
    expert: Expert | None
    clock: Clock | None
    about: dict[str, str]

    def bandit(self, history: pd.DataFrame | None = None) -> Bandit:
        """Return a bandit, which has learned from readings before the first decision if there are any.

        Parameters
        ----------
        history : DataFrame, optional
            As `policies.adaptive_gp_ucb` takes it.

        Raises
        ------
        ValueError
            If something in the file, or the history, cannot be used; the message names file and part.
        """
        with name_file_in_errors(self.path):
            domain, settings = self.sections["domain"], self.sections.get("campaign", {})
            bandit = _bandit(self, history)
            safe = domain.get("safe", ())
            bandit = _add_limits(bandit, self.sections.get("limits"), safe, self.about)
            if "control" in domain:
                control = Names(self.domain, self.about).points([domain["control"]])[0]
                bandit = bandit.with_options(control=control)
            for key, option in (("move_cost", "move_cost"), ("history", "max_history")):
                if key in settings:
                    bandit = bandit.with_options(**{option: settings[key]})
            return bandit


def read_config(path: Path, expert_name: str | None = None) -> Configuration:
    """Read a configuration file.

    Parameters
    ----------
    path : Path
    expert_name : str, optional
        The maker of the expert, which may be imported.

    Raises
    ------
    ValueError
        If the file cannot be read, or something in it cannot be used; the message names file and part.
    """
    with name_file_in_errors(path):
        check_regular(path)
        text = path.read_text(encoding="utf-8")
        sections = tomllib.loads(text)
        _check_keys("", sections)
        for name in ("domain", "policy"):
            if name not in sections:
                raise ValueError(f"there must be a section [{name}]")
        domain, about = _domain(sections["domain"], path.parent)
        for site in json.loads(about.get("names", "[]")):
            check_name("the name of each site", site)
        section = sections.get("expert", {})
        expert = _expert(section, expert_name)
        clock = make_clock(**sections["clock"]) if "clock" in sections else None
        about |= _texts(sections.get("campaign", {}))
        about |= {"config": text, "expert": section.get("maker", "")}
    return Configuration(path, sections, domain, expert, clock, about)


def _texts(section: Section) -> dict[str, str]:
    """Return title, unit and `drop_after` of [campaign]."""
    texts = {key: section[key] for key in ("title", "unit") if key in section}
    for key, value in texts.items():
        check_instance(f"[campaign] {key}", value, str, "a text")
    if "drop_after" in section:
        texts["drop_after"] = repr(positive_number("[campaign] drop_after", section["drop_after"]))
    return texts


def _check_keys(name: str, section: Any) -> None:
    check_instance(f"[{name}]", section, Mapping, "a section")
    for key, value in section.items():
        if key not in KEYS[name]:
            where = f"[{name}] " if name else ""
            hint = "; options of one policy belong to [policy.options]" if name == "policy" else ""
            raise ValueError(f"{where}unknown {key!r}; there are: {', '.join(KEYS[name])}{hint}")
        if not name:
            for each in value if key == "limits" and isinstance(value, list) else [value]:
                _check_keys(key, each)


def _domain(section: Section, folder: Path) -> tuple[Domain, dict[str, str]]:
    """Return the domain, and the names of its sites and coordinates."""
    kinds = [kind for kind in ("sites", "arms", "box", "space") if kind in section]
    if len(kinds) != 1:
        raise ValueError(
            f"[domain] must have one of sites, arms, box, space; got {kinds or 'none'}"
        )
    context = _parameters("context", section.get("context", {}))
    if kinds == ["arms"]:
        if context:
            raise ValueError("[domain] arms have no context")
        arms = Arms(section["arms"])
        return arms, {"names": json.dumps(arms.names), "coordinates": json.dumps(arms.names)}
    if kinds == ["sites"]:
        path = folder / str(section["sites"])
        sites, about = _sites(
            path, section.get("coordinates"), _file_options(section.get("read", {}))
        )
        if not context:
            return sites, about
        names = [*json.loads(about["coordinates"]), *context]
        return CandidatesInContext(sites, context), about | {"coordinates": json.dumps(names)}
    if kinds == ["box"]:
        box = Box(section["box"], context=context)
        return box, {"coordinates": json.dumps(box.coordinate_names)}
    space = Space(context=context, **_parameters("space", section["space"]))
    return space, {"coordinates": json.dumps(space.names)}


def _parameters(name: str, section: Any) -> dict[str, Any]:
    check_instance(name, section, Mapping, "a table of names")
    return {each: _parameter(each, value) for each, value in section.items()}


def _parameter(name: str, value: Any) -> Any:
    """Return a parameter as `Space` takes it; TOML has one kind of list, so that tables say more."""
    text = json.dumps(value, default=str)
    if isinstance(value, list) and value and all(map(is_finite_number, value)):
        choices = f"{{ choices = {text} }}"
        if len(value) != 2:
            raise ValueError(f"{name} = {text} must say that these are choices: write {choices}")
        tables = f"{{ interval = {text} }} or {choices}"
        raise ValueError(f"{name} = {text} may be an interval or choices: write {tables}")
    if isinstance(value, list):
        return value
    is_kind = isinstance(value, Mapping) and len(value) == 1
    kind, listed = next(iter(value.items())) if is_kind else ("", None)
    if kind == "choices" and isinstance(listed, list):
        return listed
    if kind == "periodic" and is_finite_number(listed):
        listed = [0.0, listed]
    if kind not in RANGES or not (isinstance(listed, list) and len(listed) == 2):
        tables = f"{{ interval = [low, high] }} (or {', '.join(RANGES)}), {{ choices = [16, 32] }}"
        raise ValueError(f'{name} must be {tables} or words ["eco", "loud"], got {text}')
    try:
        return RANGES[kind](*listed)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _file_options(section: Any) -> FileOptions:
    """Return what [domain] read says of the table of sites."""
    check_instance("[domain] read", section, Mapping, 'a table such as { decimal = "comma" }')
    keys = [each.name for each in fields(FileOptions)]
    for key in section:
        if key not in keys:
            raise ValueError(f"[domain] read: unknown {key!r}; there are: {', '.join(keys)}")
    return FileOptions(**section)


def _sites(
    path: Path, coordinates: list[str] | None, options: FileOptions
) -> tuple[Candidates, dict[str, str]]:
    """Return the sites of a CSV, and their names and coordinates as texts."""
    with name_file_in_errors(path):
        cells = read_sheet(path, replace(options, keep=())).cells
        frame = select_places(cells, options_of_sites(options, cells))
        name, columns, unread = _columns_of_sites(frame, coordinates, options)
        names = [str(each).strip() for each in (range(len(frame)) if name is None else frame[name])]
        is_used = stations_mask(names, options)
        names, frame = (
            [each for each, used in zip(names, is_used, strict=True) if used],
            frame[is_used],
        )
        if names and is_date_text(names[0]):
            raise ValueError(
                f"{names[0]!r} is a time, not the name of a site: this is a table of readings, which "
                "`campaign tell --csv` reads; give the table of sites here"
            )
        if len(set(names)) < len(names):
            raise ValueError("two sites have the same name")
        for column in columns:
            blank = [name for name, cell in zip(names, frame[column], strict=True) if cell == ""]
            if blank:
                raise ValueError(f"site {blank[0]!r} has no {column}")
        places = pd.DataFrame(
            {str(c): finite_column(frame[c], str(c)) for c in columns}, index=names
        )
        sites = Candidates(project_places(places))
        warn_of_degrees(places, options)
    degrees = find_degrees(places.columns)
    about = {"names": json.dumps(names), "coordinates": json.dumps([*places.columns])}
    if degrees is not None:
        others = [each for each in places.columns if each not in degrees]
        about["coordinates"] = json.dumps(["km east", "km north", *others])
        about["table"] = json.dumps(places.to_dict("list"))
        about["length_unit"] = "km"
        about["places"] = describe_conversions(places.columns, unread)
    return sites, about


def _columns_of_sites(
    frame: pd.DataFrame, coordinates: list[str] | None, options: FileOptions
) -> tuple[str | None, list[str], list[str]]:
    """Return the columns of names, if any, and of coordinates, and those that are not read."""
    if coordinates is None:
        places: Sequence[str] = find_degrees(frame.columns) or ()
    else:
        places = tuple(
            str(each) for each in as_list("coordinates", coordinates, "a list of columns")
        )
    name = next((str(c) for c in frame.columns if str(c).lower() in NAMES), None)
    name = name or _column_of_names(frame, places, options)
    columns = [str(c) for c in frame.columns if c != name]
    words = [each for each in columns if not has_numbers(frame[each])]
    unread = [each for each in columns if each not in places] if places else []
    if places:
        columns = [*places]
    elif words:
        raise ValueError(
            f"column {words[0]!r} has no numbers, so it cannot be a coordinate: list the coordinates "
            "in [domain] coordinates of campaign.toml, or remove this column"
        )
    missing = [each for each in columns if each not in frame.columns]
    if missing:
        raise ValueError(f"there is no column {missing[0]!r}; there are: {[*frame.columns]}")
    if not columns:
        raise ValueError(f"there must be columns of coordinates besides {frame.columns[0]!r}")
    return name, columns, unread


def _column_of_names(
    frame: pd.DataFrame, coordinates: Sequence[str], options: FileOptions
) -> str | None:
    """Return the column of names in a table without a usual heading of names; None if it has none.

    Beside coordinates that are known, numbers in the first column are ids.
    """
    first = str(frame.columns[0])
    has_words = pd.to_numeric(frame[first], errors="coerce").isna().any()
    if has_words and options.station is None:
        return first  # it may be called probe, well, ...
    stations = find_station_columns(frame, options_of_sites(options, frame))
    if len(stations) == 1:
        return stations[0]
    return first if coordinates and first not in coordinates else None


# --- the policy -------------------------------------------------------------------------------


def _find_policy(where: str, spec: str) -> tuple[Policy, str]:
    """Return the policy of "name:key=value,...", and this text with the usual spelling of the name."""
    spec = find_spec("policy", spec, POLICIES) or ""
    policy = POLICIES.get(spec.partition(":")[0])
    if policy is None:
        raise ValueError(f"{where} must be one that `tvbandits policies` lists, got {spec!r}")
    if "kernel" not in inspect.signature(policy.recipe).parameters:
        raise ValueError(f"a campaign needs a model of the reward, and {policy.name} has no model")
    return policy, spec


def _bandit(config: Configuration, history: pd.DataFrame | None) -> Bandit:
    """Return the bandit of [policy], without what other sections say."""
    section, domain = config.sections["policy"], config.domain
    if "name" not in section:
        raise ValueError("[policy] must have a name")
    policy, spec = _find_policy("[policy] name", str(section["name"]))
    options = _options(policy, spec, section)
    if policy.asks:
        options["expert"] = config.expert
    elif "expert" in config.sections:
        names = [each.name for each in POLICIES.values() if each.asks]
        raise ValueError(
            f"{policy.name} does not use an expert; the policies that do are {', '.join(names)}"
        )
    arguments = {key: section[key] for key in ("seed", "minimize") if key in section}
    if history is not None:
        if "history" not in inspect.signature(policy.recipe).parameters:
            raise ValueError(
                f"{policy.name} does not learn from a history: leave out --history, and import the "
                "table by `campaign tell --csv`"
            )
        arguments["history"] = history
    length_unit = config.about.get("length_unit", "")
    arguments["kernel"] = _kernel(section, domain, policy.learns_kernel, length_unit)
    arguments["noise_variance"] = _noise_variance(section)
    try:
        # The others belong to `Options` (`Policy.bandit`).
        signature = inspect.signature(policy.recipe)
        own = {name: value for name, value in options.items() if name in signature.parameters}
        signature.bind(domain, **arguments, **own)
    except TypeError as error:  # an option without a default is missing
        raise ValueError(f"[policy.options] {policy.name}: {error}") from error
    bandit = policy.bandit(domain=domain, **arguments, **options)
    if not isinstance(bandit, Bandit):
        raise ValueError(f"a campaign needs a model of the reward, and {policy.name} has no model")
    return bandit


def _add_limits(bandit: Bandit, sections: Any, safe: Any, about: Mapping[str, str]) -> Bandit:
    """Return the bandit with the limits of [[limits]], which starts from safe places."""
    safe = as_list("safe", safe, "a list of places")
    if sections is None:
        if safe:
            raise ValueError("[domain] safe is for campaigns with limits: add a section [[limits]]")
        return bandit
    if not isinstance(sections, list):
        raise ValueError("write each limit as a section [[limits]]")
    limits = []
    for section in sections:
        values = {"name": "", "noise_variance": _noise_variance(section, "limits"), **section}
        limits.append(Limit(**{key: each for key, each in values.items() if key != "noise_sd"}))
    places = Names(bandit.recipe.domain, about).points(safe) if safe else ()
    return bandit.with_options(limits=limits, safe=places)


def options_of(policy: Policy) -> dict[str, inspect.Parameter]:
    """Return the options of a policy besides the keys that all policies have."""
    parameters = policy.parameters.items()
    return {name: each for name, each in parameters if name not in KEYS["policy"]}


def _options(policy: Policy, spec: str, section: Section) -> dict[str, Any]:
    """Return the options in the name ("frugal-gp-ucb:queries_per_step=1") and in [policy.options]."""
    parameters, options = options_of(policy), section.get("options", {})
    check_instance("[policy.options]", options, Mapping, "a section")
    values = parse_call(parameters, spec)
    for name, value in options.items():
        if name not in parameters:
            names = ", ".join(parameters)
            raise ValueError(
                f"[policy.options] unknown {name!r} for {policy.name}; there are: {names}"
            )
        if name in values:
            raise ValueError(f"[policy.options] {name} is given twice")
        values[name] = None if means_none(value, parameters[name].annotation) else value
    return values


def _noise_variance(section: Section, name: str = "policy") -> float | None:
    """Return the noise variance from one of two keys; without them, or with "none", it is learned."""
    keys = [key for key in ("noise_variance", "noise_sd") if key in section]
    if len(keys) > 1:
        raise ValueError(f"[{name}] must have one of noise_variance and noise_sd, got both")
    if not keys or means_none(section[keys[0]], float | None):
        return None
    value = finite_number(f"[{name}] {keys[0]}", section[keys[0]], above=0.0, high=LARGEST_VALUE)
    return value**2 if keys == ["noise_sd"] else value


def _kernel(section: Section, domain: Domain, learns: bool, length_unit: str) -> Any:
    """Return the kernel, or None if the policy finds one for itself."""
    scale = section.get("length_scale")
    if scale is None:
        needs_scale = "kernel" in section or "smoothness" in section
        if learns and not needs_scale:
            return None
        if isinstance(domain, Space) and not needs_scale:
            return domain.kernel()
        unit = f" in {length_unit}" if length_unit else ", in the unit of the coordinates"
        raise ValueError(f"[policy] must have a length_scale{unit}")
    scales = as_floats(scale, "[policy] length_scale")
    if scales.size == 0 or scales.ndim > 1 or not (np.isfinite(scales) & (scales > 0)).all():
        needs = "positive, one number for all coordinates or one for each"
        raise ValueError(f"[policy] length_scale must be {needs}, got {describe(scale)}")
    name = check_choice(
        "[policy] kernel", str(section.get("kernel", "rbf")).lower(), ("rbf", "matern")
    )
    if name == "rbf":
        if "smoothness" in section:
            raise ValueError('[policy] smoothness is for kernel = "matern"')
        return RBF(scale)
    nu = section.get("smoothness", 2.5)
    return Matern(scale, nu=nu if is_infinite(nu) else positive_number("[policy] smoothness", nu))


# --- the expert -------------------------------------------------------------------------------


def check_expert(name: str, maker: str) -> None:
    """Raise a `ValueError` unless --expert is the maker in the configuration: the only code imported."""
    if name != maker:
        needs = f"be {maker}, as in" if maker else "be left out, since there is no maker in"
        raise ValueError(f"--expert must {needs} the configuration, got {name}")


def make_expert(maker: Any, budget: int | None) -> Expert:
    """Return an expert from the function that makes it, or from itself, with a budget of questions."""
    expert: Expert = instance_of(maker)
    check_part("[expert] what the maker returns", expert, "an object with query(X, t)", "query")
    return expert if budget is None else Budgeted(expert, total=budget)


def _expert(section: Section, expert_name: str | None) -> Expert | None:
    maker = str(section.get("maker", ""))
    if expert_name is not None:
        check_expert(expert_name, maker)
    if not section:
        return None
    if not maker:
        raise ValueError('[expert] must have maker = "package.module:name"')
    if expert_name is None:
        raise ValueError(
            f"the expert {maker} is your own code: allow its import with --expert {maker}"
        )
    return make_expert(load(maker), section.get("budget"))


# --- a new campaign ---------------------------------------------------------------------------

DRAFT = """# For `tvbandits campaign new FILE --config {path}`. All keys: docs/campaign-toml.md.
[domain]
sites = {sites}  # a table with a column `site`; all others are coordinates, in the same unit
{read}
# or arms = ["red", "green"], or box = [[0, 10], [0, 5]], or a section [domain.space]

[policy]
name = {name}
{noise}  # standard deviation of a reading, in its unit; without this line the policy learns it
{scale}length_scale = 1.0  # in the unit of the coordinates (km for degrees); one, or one for each

[policy.options]
{options}

# [campaign]
# unit = "ppb"  # the unit of the reward, as the page shows it

{clock}
"""

NO_CLOCK = """# [clock]  # with a clock, times may be dates
# unit = "1h"
# origin = "2026-01-01\""""


def write_draft(
    file: str,
    path: Path,
    spec: str,
    sites: str | None,
    noise_sd: float | None,
    clock: str | None,
    history: Path | None,
    tables: Mapping[str, Any],
) -> bool:
    """Write a configuration for "name:key=value,...", and return whether it has a clock.

    The other options of the policy are comments. `clock` is the unit of a clock, whose origin and zone
    are those of the history, or of a table of sites that also has readings. `tables` are fields of
    `FileOptions` for both; of them `header` is for the history where there is one.
    """
    policy, spec = _find_policy("--policy", spec)
    parameters = options_of(policy)
    lines = {name: f"# {name} = ..." for name in parameters}
    for name, parameter in parameters.items():
        if isinstance(parameter.default, bool | int | float | str):
            lines[name] = f"# {name} = {json.dumps(parameter.default)}"
    for name, value in parse_call(parameters, spec).items():
        lines[name] = f"{name} = {json.dumps('none' if value is None else value)}"
    readings = sites if history is None else history
    clock_lines = ""
    if readings is not None:
        options, is_history = FileOptions(**tables), history is not None
        clock_lines = _clock_lines(Path(readings), options, clock, is_history)
    of_sites = {k: value for k, value in tables.items() if k != "header" or history is None}
    if sites is not None and history is not None and "without" in tables:
        left_out = _sites_left_out(Path(sites), history, FileOptions(**tables), of_sites)
        of_sites = {**of_sites, "without": left_out} if left_out else _except_without(of_sites)
    words = [
        f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in of_sites.items()
    ]
    if clock is not None and not clock_lines:
        clock_lines = f'[clock]\nunit = {json.dumps(clock)}\norigin = "{date.today().year}-01-01"'
    text = DRAFT.format(
        path=path,
        sites=json.dumps(_path_from(path, sites or "sites.csv"), ensure_ascii=False),
        read=f"read = {{ {', '.join(words)} }}" if words else '# read = { decimal = "comma" }',
        clock=clock_lines or NO_CLOCK,
        name=json.dumps(policy.name),
        noise="# noise_sd = 0.1" if noise_sd is None else f"noise_sd = {noise_sd}",
        scale="# " if policy.learns_kernel else "",
        options="\n".join(lines.values()),
    )
    database_at(file)  # raises an error if no campaign can be there
    if Path(file).exists():
        raise ValueError(f"{file} already exists: give the new campaign another name")
    if path.exists():
        raise ValueError(
            f"{path} already exists: --config {path} without --policy starts a campaign from it, and "
            "--config OTHER.toml writes another file"
        )
    path.write_text(text, encoding="utf-8")
    return bool(clock_lines)


def _except_without(tables: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tables.items() if name != "without"}


def _path_from(config: Path, sites: str) -> str:
    """Return the path of the table of sites as the configuration names it: from its own folder."""
    if Path(sites).is_absolute() or config.parent.resolve() == Path.cwd():
        return sites
    return os.path.relpath(sites, config.parent)


def _sites_left_out(
    sites: Path, history: Path, options: FileOptions, of_sites: Mapping[str, Any]
) -> list[str]:
    """Return which of the stations that the options leave out are sites; others are in the history.

    Raises
    ------
    ValueError
        If one is in neither of the tables.
    """
    _, about = _sites(sites, None, FileOptions(**_except_without(of_sites)))
    with name_file_in_errors(history):
        cells = read_sheet(history, options).cells
        layout = find_columns(cells, options)
        stations = (
            read_stations(cells, layout) if layout.is_long else read_ids(cells.columns.to_series())
        )
    names, others = json.loads(about["names"]), {*stations}
    for each in options.without:
        if each not in names and each not in others:
            raise ValueError(
                f"{format_option('without', each)}: neither {sites} nor {history} has this station; "
                f"the sites are {quote_few(names)}"
            )
    return [each for each in options.without if each in names]


def _clock_lines(path: Path, options: FileOptions, unit: str | None, is_history: bool) -> str:
    """Return a clock for the times of a table of readings; an empty text where they are no dates."""
    with name_file_in_errors(path):
        own = options if is_history else replace(options, keep=())
        cells = read_sheet(path, own).cells
        layout = find_columns(cells, options if is_history else options_of_sites(options, cells))
        if not (is_history or layout.is_long):
            return ""
        texts = read_times(cells, layout, options)
        times = parse_times(texts, " ".join(layout.time), options.dates)
        if not isinstance(times, pd.DatetimeIndex):
            return ""
        stations = read_stations(cells, layout) if layout.is_long else pd.Series("", cells.index)
        grid = find_step(pd.Series(times, cells.index), stations)
        # The clock has a time zone where the table has offsets.
        zone, origin = pd.Timestamp(texts.iloc[0]).tz, times.min()
        if zone is not None:
            origin = origin.tz_localize("UTC").tz_convert(options.zone or zone)
    step = unit or (grid.step if grid is not None and grid.step else "1h")
    start, name = origin.normalize(), ""
    if options.zone is not None:
        start, name = start.tz_localize(None), f"\nzone = {json.dumps(options.zone)}"
    return f'[clock]\nunit = {json.dumps(step)}\norigin = "{start}"{name}'


def create(
    file: str,
    config: Path,
    expert: str | None,
    who: str | None,
    like: str | None,
    read_history: Callable[[Bandit, Clock | None, dict[str, str]], pd.DataFrame] | None = None,
) -> None:
    """Create a campaign, which may start with what another one has learned.

    Given a bandit without a history, `read_history` returns the readings before the first decision.
    """
    configuration = read_config(config, expert)
    bandit, clock, about = configuration.bandit(), configuration.clock, configuration.about
    if read_history is not None:
        past = read_history(bandit, clock, about)
        with bar_if_slow("learn", is_shown=expert is None):
            bandit = configuration.bandit(past)
    if like is not None:
        with Campaign.open(like) as other, name_file_in_errors(Path(like)), bar_if_slow("learn"):
            bandit = bandit.learn_from(other)
    with Campaign.create(file, bandit, clock=clock, about=about, who=who) as campaign:
        places = f"; {about['places']}" if "places" in about else ""
        print(escape(f"{file}: a campaign on {campaign.domain!r}{places}"))
