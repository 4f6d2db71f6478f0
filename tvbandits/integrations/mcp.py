"""A campaign for agents, over the Model Context Protocol: `tvbandits campaign mcp FILE`.

An agent has four tools: `ask`, `tell`, `status` and `forecast`. Each is one call of the campaign, which
happens wholly or not at all, and is in its journal under the name of who serves it.
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
    dict[str, float | str] | None, Field(description="What is measured and not chosen, by name.")
]
Outcomes = Annotated[
    dict[str, float] | None, Field(description="Readings of outcomes under limits, by name.")
]
Key = Annotated[
    str | None, Field(description="A name for this call: repeated under it, the call counts once.")
]

# What a remedy is called where an agent calls a tool; corrections are for people.
WORDS = {
    "key": "a key",
    "sure": "sure = true",
    "expert": "its expert (tvbandits campaign mcp --expert)",
    "correct": "`tvbandits campaign correct`",
    "correct_answers": "`tvbandits campaign correct --answer`",
}

INSTRUCTIONS = (
    "A bandit that chooses where to measure next while the best place drifts. Call ask for the next "
    "place, measure there, and tell the reading. A place stays pending until its reading is told."
)


def campaign_server(campaign: Campaign) -> MCPServer:
    """Return an MCP server with the tools of a campaign.

    Parameters
    ----------
    campaign : Campaign
        Opened with its expert, if it has one. It must stay open while the server runs.

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
    for tool, reads in (
        (tools.ask, False),
        (tools.tell, False),
        (tools.status, True),
        (tools.forecast, True),
    ):
        hints = ToolAnnotations(read_only_hint=reads, destructive_hint=False, open_world_hint=False)
        server.add_tool(_explained(tool), annotations=hints)
    return server


def serve(campaign: Campaign) -> None:
    """Serve a campaign to the client that started this process, over standard input and output."""
    campaign_server(campaign).run("stdio")


class CampaignTools:
    """The tools of a campaign; a docstring is what an agent reads of a tool."""

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
        """Choose where to measure next; the places are pending until their readings are told."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            choice = self._campaign.choose(_time(time), n, available, context, key=key)
        names = self._campaign.names
        places = [{"site": names.name(x), "point": x.tolist()} for x in choice.points]
        texts = [str(each.message) for each in caught]
        texts += [
            f"{site} was left out, {text}: name it in available to ask for it"
            for site, text in choice.left_out.items()
        ]
        texts += self._doubts([each["site"] for each in places])
        return {"places": places, **({"warnings": texts} if texts else {})}

    def tell(
        self,
        site: Place,
        reward: Annotated[float | None, Field(description="The reading; null if it failed.")],
        time: Time = None,
        noise_variance: Annotated[
            float | None, Field(description="The noise variance of the reading, if it is known.")
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
            bool, Field(description="Record the reading although it is unusual: it was checked.")
        ] = False,
    ) -> dict[str, Any]:
        """Record a reading. Without a time it is for the time of the ask that returned the place."""
        campaign = self._campaign
        places: list[str] | list[list[float]] = [site] if isinstance(site, str) else [[*site]]
        further = None if outcomes is None else {name: [y] for name, y in outcomes.items()}
        campaign.tell(
            places,
            _reading(np.nan if reward is None else reward, trials, exposure),
            _time(time),
            noise_variance,
            further,
            context,
            sure=sure,
            key=key,
        )
        return {"readings": campaign.status.readings, "failed": campaign.status.failed}

    def status(self) -> dict[str, Any]:
        """Return how many readings there are, which places are pending, and the time of the latest."""
        campaign, status = self._campaign, self._campaign.status
        last = None if status.time is None else self._time_to_say(status.time)
        about = campaign.about
        texts: dict[str, Any] = {key: about[key] for key in ("title", "unit") if key in about}
        pending = [
            {"site": each.place, "time": self._time_to_say(each.t), "who": each.who}
            for each in campaign.pending_points
        ]
        return {**texts, **status.summary, "last": last, "pending_places": pending}

    def forecast(
        self,
        sites: Annotated[list[Place] | None, Field(description="All sites by default.")] = None,
        time: Time = None,
        context: Context = None,
        most: Annotated[int, Field(ge=1, le=1000, description="How many, the best first.")] = 20,
    ) -> dict[str, Any]:
        """Predict the mean reward at sites, with the interval that has it with 95%, the best first."""
        rows = forecast(self._campaign, sites, _time(time), context=context)
        texts = self._doubts([row.site for row in rows[:most]])
        predictions = {"forecast": [row._asdict() for row in rows[:most]]}
        return {**predictions, **({"warnings": texts} if texts else {})}

    def _doubts(self, sites: list[str]) -> list[str]:
        """Return what a person should look at before believing in some sites."""
        return [f"{site}: {text}" for site, text in doubts_about(self._campaign, sites).items()]

    def _time_to_say(self, t: float) -> float | str:
        """Return a time in the form in which a tool takes it."""
        return t if self._campaign.clock is None else self._campaign.format_time(t)


def _time(time: float | str | None) -> float | str | None:
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


def _explained(tool: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return a tool whose errors the agent reads; others it would see as an unknown crash."""

    @wraps(tool)
    def call(*arguments: Any, **options: Any) -> dict[str, Any]:
        try:
            return tool(*arguments, **options)
        except CampaignError as error:
            raise ToolError(error.message(WORDS)) from error
        except (ValueError, ExpertError) as error:
            raise ToolError(str(error)) from error

    return call
