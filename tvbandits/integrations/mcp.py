"""A server that lets agents use a campaign over the Model Context Protocol.

`tvbandits campaign mcp FILE` starts it. An agent has four tools: `ask`, `tell`, `status` and `forecast`.
Each makes one call of the campaign, which succeeds completely or changes nothing. The journal records
it under the name of the user who runs the server.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import numpy as np

try:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp_types import ToolAnnotations
    from pydantic import Field
except ImportError as error:
    raise ImportError("the MCP server needs more packages: pip install 'tvbandits[mcp]'") from error

from tvbandits._version import __version__
from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.forecasts import doubts_about, forecast
from tvbandits.campaign.store.errors import CampaignError
from tvbandits.clock import parse_time
from tvbandits.counts import Counted, count, rate
from tvbandits.experts.protocol import ExpertError

Time = Annotated[
    float | str | None, Field(description="A number, or a date if the campaign has a clock.")
]
Place = Annotated[str | list[float], Field(description="The name of a site, or coordinates.")]
Context = Annotated[
    dict[str, float | str] | None,
    Field(description="Values by name that are measured, not chosen, such as the weather."),
]
Outcomes = Annotated[
    dict[str, float] | None, Field(description="Readings of outcomes that have limits, by name.")
]
Key = Annotated[
    str | None,
    Field(description="A name for this call: if it is repeated with the same key, it counts once."),
]

# The names of remedies in messages to an agent; corrections are commands, since people make them.
REMEDIES = {
    "key": "a key",
    "sure": "sure = true",
    "expert": "its expert (tvbandits campaign mcp --expert)",
    "correct": "`tvbandits campaign correct`",
    "correct_answers": "`tvbandits campaign correct --answer`",
}

INSTRUCTIONS = (
    "A bandit that chooses where to measure next while the best place drifts. Call ask for the next "
    "place, measure there, and report the reading by tell. Until then the place is pending."
)


def campaign_server(campaign: Campaign) -> MCPServer:
    """Return an MCP server with the tools of a campaign.

    Parameters
    ----------
    campaign : Campaign
        An open campaign, with its expert if it has one. It must stay open while the server runs.

    Examples
    --------
    >>> import asyncio
    >>> from mcp import Client
    >>> from tvbandits import Campaign, Candidates, policies
    >>> from tvbandits.integrations.mcp import campaign_server
    >>> bandit = policies.adaptive_gp_ucb(Candidates([[0.0], [1.0]]))
    >>> async def read_status(campaign):
    ...     async with Client(campaign_server(campaign)) as client:
    ...         return (await client.call_tool("status", {})).structured_content
    >>> with Campaign.create("campaign.db", bandit) as campaign:
    ...     print(asyncio.run(read_status(campaign))["readings"])
    0
    """
    tools = CampaignTools(campaign)
    server = MCPServer("tvbandits", instructions=INSTRUCTIONS, version=__version__)
    for tool, is_read_only in (
        (tools.ask, False),
        (tools.tell, False),
        (tools.status, True),
        (tools.forecast, True),
    ):
        hints = ToolAnnotations(
            read_only_hint=is_read_only, destructive_hint=False, open_world_hint=False
        )
        server.add_tool(_explain_errors(tool), annotations=hints)
    return server


def serve(campaign: Campaign) -> None:
    """Serve a campaign over standard input and output to the client that started this process."""
    campaign_server(campaign).run("stdio")


class CampaignTools:
    """The tools of a campaign, whose docstrings an agent reads."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign

    def ask(
        self,
        n: Annotated[int | None, Field(ge=1, le=1000, description="How many places.")] = None,
        time: Time = None,
        available: Annotated[
            list[str] | None, Field(description="Only these sites are available; all by default.")
        ] = None,
        context: Context = None,
        key: Key = None,
    ) -> dict[str, Any]:
        """Choose where to measure next; the places are pending until you report their readings."""
        with warnings.catch_warnings(record=True) as records:
            warnings.simplefilter("always")
            choice = self._campaign.choose(_parse_time(time), n, available, context, key=key)
        names = self._campaign.names
        places = [{"site": names.name(x), "point": x.tolist()} for x in choice.points]
        texts = [str(record.message) for record in records]
        texts += [
            f"{site} was left out, {text}: name it in available to ask for it"
            for site, text in choice.left_out.items()
        ]
        texts += self._doubts([place["site"] for place in places])
        return {"places": places, **({"warnings": texts} if texts else {})}

    def tell(
        self,
        site: Place,
        reward: Annotated[float | None, Field(description="The reading; null if it failed.")],
        time: Time = None,
        noise_variance: Annotated[
            float | None, Field(description="The noise variance of the reading, if known.")
        ] = None,
        outcomes: Outcomes = None,
        context: Context = None,
        trials: Annotated[
            float | None,
            Field(
                description="Of how many trials the reward is the number that succeeded, if it is."
            ),
        ] = None,
        exposure: Annotated[
            float | None,
            Field(
                description="In how much time, or how many visits, the reward counts events, if it does."
            ),
        ] = None,
        key: Key = None,
        sure: Annotated[
            bool, Field(description="Record a reading although it is unusual, after checking it.")
        ] = False,
    ) -> dict[str, Any]:
        """Record a reading; its time is by default that of the ask that returned the place."""
        campaign = self._campaign
        places: list[str] | list[list[float]] = [site] if isinstance(site, str) else [[*site]]
        outcome_rows = None if outcomes is None else {name: [y] for name, y in outcomes.items()}
        campaign.tell(
            places,
            _reading(np.nan if reward is None else reward, trials, exposure),
            _parse_time(time),
            noise_variance,
            outcome_rows,
            context,
            sure=sure,
            key=key,
        )
        return {"readings": campaign.status.readings, "failed": campaign.status.failed}

    def status(self) -> dict[str, Any]:
        """Return the number of readings, the time of the latest one, and the pending places."""
        campaign, status = self._campaign, self._campaign.status
        latest = None if status.time is None else self._format_time(status.time)
        description = campaign.about
        texts: dict[str, Any] = {
            key: description[key] for key in ("title", "unit") if key in description
        }
        pending = [
            {"site": point.place, "time": self._format_time(point.t), "who": point.who}
            for point in campaign.pending_points
        ]
        return {**texts, **status.summary, "last": latest, "pending_places": pending}

    def forecast(
        self,
        sites: Annotated[list[Place] | None, Field(description="All sites by default.")] = None,
        time: Time = None,
        context: Context = None,
        most: Annotated[
            int, Field(ge=1, le=1000, description="The largest number of sites, the best first.")
        ] = 20,
    ) -> dict[str, Any]:
        """Predict the mean reward at sites, with its 95% interval, the best sites first."""
        rows = forecast(self._campaign, sites, _parse_time(time), context=context)
        texts = self._doubts([row.site for row in rows[:most]])
        predictions = {"forecast": [row._asdict() for row in rows[:most]]}
        return {**predictions, **({"warnings": texts} if texts else {})}

    def _doubts(self, sites: list[str]) -> list[str]:
        """Return reasons to doubt the readings of some sites, which a person should check."""
        return [f"{site}: {text}" for site, text in doubts_about(self._campaign, sites).items()]

    def _format_time(self, t: float) -> float | str:
        """Return a time in the form that the tools accept: a date if the campaign has a clock."""
        return t if self._campaign.clock is None else self._campaign.format_time(t)


def _parse_time(time: float | str | None) -> float | str | None:
    return parse_time(time) if isinstance(time, str) else time


def _reading(reward: float, trials: float | None, exposure: float | None) -> list[float] | Counted:
    """Return a reading as `Campaign.tell` takes it: a number, or what was counted."""
    if trials is not None and exposure is not None:
        raise ValueError(
            f"a reward is a count of trials or of an exposure, got {trials=}, {exposure=}"
        )
    if trials is not None:
        return rate([reward], [trials])
    return [reward] if exposure is None else count([reward], [exposure])


def _explain_errors(tool: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return a tool whose errors the agent reads; others it would see as an unknown crash."""

    @wraps(tool)
    def call(*arguments: Any, **options: Any) -> dict[str, Any]:
        try:
            return tool(*arguments, **options)
        except CampaignError as error:
            raise ToolError(error.message(REMEDIES)) from error
        except (ValueError, ExpertError) as error:
            raise ToolError(str(error)) from error

    return call
