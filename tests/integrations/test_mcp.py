"""A campaign over the Model Context Protocol, with a client of the official package."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mcp = pytest.importorskip("mcp", reason="needs the extra tvbandits[mcp]")

from mcp import Client, StdioServerParameters  # noqa: E402

from tvbandits import Arms, Campaign, Candidates, Clock, Limit, Options, Space, policies  # noqa: E402
from tvbandits.integrations.mcp import campaign_server  # noqa: E402


def bandit_on(domain: Any, **options: Any) -> Any:
    kernel = policies.default_kernel(domain)
    return policies.tv_gp_ucb(
        domain, kernel=kernel, noise_variance=0.01, forgetting_rate=0.05, **options
    )


SITES = Candidates([[0.0], [1.0], [2.0]])
ABOUT = {"names": '["pier", "dune", "wood"]', "title": "Dust", "unit": "mg"}


def call_all(campaign: Any, calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """The content of the result of each call, or the text of its error."""

    async def run() -> list[Any]:
        async with Client(campaign_server(campaign)) as client:
            results = [await client.call_tool(name, arguments) for name, arguments in calls]
        return [
            each.content[0].text if each.is_error else each.structured_content for each in results
        ]

    return asyncio.run(run())


@pytest.fixture
def campaign(tmp_path: Path) -> Any:
    with Campaign.create(
        tmp_path / "campaign.db", bandit_on(SITES), about=ABOUT, who="agent"
    ) as made:
        yield made


def test_campaign_server_has_four_tools_and_marks_the_read_only_ones(campaign: Any) -> None:
    async def run() -> Any:
        async with Client(campaign_server(campaign)) as client:
            return (await client.list_tools()).tools

    tools = {each.name: each for each in asyncio.run(run())}
    reads = {name: each.annotations.read_only_hint for name, each in tools.items()}
    assert reads == {"ask": False, "tell": False, "status": True, "forecast": True}
    assert all(each.description for each in tools.values())
    assert "self" not in tools["tell"].input_schema["properties"]
    assert tools["tell"].input_schema["required"] == ["site", "reward"]


def test_campaign_server_plays_and_predicts_as_a_bandit_asked_and_told_by_hand(
    campaign: Any,
) -> None:
    by_hand = bandit_on(SITES)
    names = ["pier", "dune", "wood"]
    for t in (1.0, 2.0, 3.0):
        (asked,) = call_all(campaign, [("ask", {"time": t})])
        (x,) = by_hand.ask(t)
        assert asked == {"places": [{"site": names[int(x[0])], "point": x.tolist()}]}
        site = asked["places"][0]["site"]
        call_all(campaign, [("tell", {"site": site, "reward": 0.1 * x[0] + t})])
        by_hand.tell([x], [0.1 * x[0] + t], t)
    mean, deviation = by_hand.predict(SITES.X, 5.0)
    forecast, two, status = call_all(
        campaign,
        [
            ("forecast", {"time": 5}),
            ("forecast", {"time": "5", "sites": ["wood", [0.0]], "most": 1}),
            ("status", {}),
        ],
    )
    order = np.argsort(-mean)
    assert [each["site"] for each in forecast["forecast"]] == [names[i] for i in order]
    assert [each["mean"] for each in forecast["forecast"]] == pytest.approx(mean[order])
    low = [each["interval_95"][0] for each in forecast["forecast"]]
    assert low == pytest.approx((mean - 1.96 * deviation)[order])
    assert len(two["forecast"]) == 1
    assert (status["title"], status["unit"], status["readings"]) == ("Dust", "mg", 3)
    assert status["last"] == 3.0
    (asked,) = call_all(campaign, [("ask", {"time": status["last"]})])
    assert len(asked["places"]) == 1
    assert status["pending_places"] == []
    assert {row.who for row in campaign.journal()} == {"agent"}


def test_ask_tool_counts_a_repeated_key_once_and_status_names_pending_places(campaign: Any) -> None:
    ask = ("ask", {"n": 2, "time": 1, "key": "monday"})
    first, again, status = call_all(campaign, [ask, ask, ("status", {})])
    assert first == again
    assert [each["site"] for each in status["pending_places"]] == [
        each["site"] for each in first["places"]
    ]
    site = first["places"][0]["site"]
    failed, after = call_all(campaign, [("tell", {"site": site, "reward": None}), ("status", {})])
    assert failed == {"readings": 0, "failed": 1}
    assert len(after["pending_places"]) == 1


def test_tell_tool_refuses_an_unusual_reading_unless_it_is_sure(campaign: Any) -> None:
    usual = [("tell", {"site": "pier", "reward": 19.0 + 0.1 * t, "time": t}) for t in range(1, 6)]
    call_all(campaign, usual)
    wrong = {"site": "pier", "reward": 1927.0, "time": 6}
    (error,) = call_all(campaign, [("tell", wrong)])
    assert "1927" in error
    assert "sure" in error
    assert campaign.status.readings == 5
    assert call_all(campaign, [("tell", {**wrong, "sure": True})]) == [{"readings": 6, "failed": 0}]


def test_ask_tool_warns_of_silent_sites_that_it_omits(campaign: Any) -> None:
    for t in range(1, 5):
        call_all(campaign, [("ask", {"time": t, "available": ["dune"]})])
        call_all(campaign, [("tell", {"site": "dune", "reward": None})])
    (asked,) = call_all(campaign, [("ask", {"time": 6})])
    assert asked["places"][0]["site"] != "dune"
    (warning,) = asked["warnings"]
    assert "dune was left out, silent" in warning
    assert "available" in warning


def test_tell_tool_accepts_counts_with_trials_or_exposure(tmp_path: Path) -> None:
    bandit = policies.adaptive_gp_ucb(Arms(["red", "blue"]))
    with Campaign.create(tmp_path / "campaign.db", bandit) as campaign:
        told = {"site": "red", "reward": 3, "trials": 40, "time": 1}
        both, share, none, plain = call_all(
            campaign,
            [
                ("tell", {**told, "exposure": 2}),
                ("tell", told),
                ("tell", {**told, "site": "blue", "reward": None}),
                ("tell", {"site": "blue", "reward": 0.1, "time": 1}),
            ],
        )
        assert "trials=40" in both
        assert "exposure=2" in both
        assert share == {"readings": 1, "failed": 0}
        assert none == {"readings": 1, "failed": 1}
        assert "0.1 is a plain number" in plain
        (value,), (of,) = campaign.state.rewards.y, campaign.state.rewards.trials
        assert (value, of) == (3 / 40, 40)
    with Campaign.create(tmp_path / "events.db", bandit) as campaign:
        call_all(campaign, [("tell", {"site": "red", "reward": 6, "exposure": 1.5, "time": 1})])
        assert campaign.state.rewards.y.tolist() == [4.0]


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("tell", {"site": "peer", "reward": 1.0}, "peer"),
        ("tell", {"site": "pier", "reward": 1.0, "time": "yesterday"}, "yesterday"),
        ("tell", {"site": "pier", "reward": 1.0, "noise_variance": -1.0}, "-1"),
        ("tell", {"site": "pier", "reward": 1.0, "outcomes": {"noise": 3.0}}, "noise"),
        ("tell", {"site": [0.5], "reward": 1.0}, "0.5"),
        ("tell", {"site": "pier"}, "reward"),
        ("tell", {"site": "pier", "reward": "high"}, "reward"),
        ("ask", {"n": 0}, "greater than or equal to 1"),
        ("ask", {"available": ["moor"]}, "moor"),
        ("ask", {"context": {"outside": 3.0}}, "context"),
        ("forecast", {"sites": ["moor"]}, "moor"),
        ("forget", {}, "forget"),
    ],
)
def test_tools_refuse_an_invalid_argument_by_its_value_and_change_nothing(
    campaign: Any, tool: str, arguments: dict[str, Any], message: str
) -> None:
    rows = len(campaign.journal())

    async def run() -> str:
        async with Client(campaign_server(campaign)) as client:
            try:
                result = await client.call_tool(tool, arguments)
            except mcp.MCPError as error:  # the tool does not exist
                return str(error)
            assert result.is_error
            return str(result.content[0].text)

    assert message in asyncio.run(run())
    assert len(campaign.journal()) == rows


def test_tools_accept_dates_contexts_outcomes_and_spaces(tmp_path: Path) -> None:
    domain = Space(power=(0.0, 10.0), context={"outside": (-15.0, 20.0)})
    options = Options(limits=[Limit("loudness", at_most=60.0, noise_variance=1.0)])
    bandit = bandit_on(domain, options=options)
    clock = Clock("1h", "2026-01-01T00:00:00+00:00")
    with Campaign.create(tmp_path / "space.db", bandit, clock=clock) as campaign:
        ask = {"time": "2026-01-01T05:00:00+00:00", "context": {"outside": 3.5}}
        (asked,) = call_all(campaign, [("ask", ask)])
        (place,) = asked["places"]
        assert place["point"][-1] == 3.5
        (warning,) = asked["warnings"]
        assert "loudness" in warning
        tell = {"site": place["point"], "reward": 2.0, "outcomes": {"loudness": 55.0}}
        told, status, error, forecast = call_all(
            campaign,
            [
                ("tell", tell),
                ("status", {}),
                ("forecast", {}),
                ("forecast", {"sites": [[4.0]], "context": {"outside": 3.5}}),
            ],
        )
        assert told == {"readings": 1, "failed": 0}
        assert status["last"].startswith("2026-01-01 05:00")
        assert "name the places" in error
        assert len(forecast["forecast"]) == 1
        assert campaign.state.outcomes["loudness"].rewards.y.tolist() == [55.0]


@pytest.mark.slow
def test_mcp_command_serves_a_client_over_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "campaign.db"
    Campaign.create(file, bandit_on(SITES), about=ABOUT).close()
    command = ["-m", "tvbandits", "campaign", "mcp", str(file), "--who", "agent 7"]

    async def run() -> Any:
        async with Client(StdioServerParameters(command=sys.executable, args=command)) as client:
            await client.call_tool("ask", {"n": 1})
            return (await client.call_tool("status", {})).structured_content

    status = asyncio.run(run())
    assert status["pending"] == 1
    assert status["pending_places"][0]["who"] == "agent 7"


def test_mcp_command_refuses_a_file_that_does_not_exist(command: Any, tmp_path: Path) -> None:
    failed = command("campaign", "mcp", str(tmp_path / "none.db"))
    assert failed.status == 2
    assert "none.db" in failed.err


def test_tell_tool_restores_a_retracted_reading_only_under_a_key(campaign: Any) -> None:
    campaign.tell("pier", [20.0], 1.0)
    campaign.retract("pier", 1.0)
    reading = {"site": "pier", "reward": 20.0, "time": 1.0}
    refusal, done = call_all(
        campaign, [("tell", reading), ("tell", {**reading, "key": "on purpose"})]
    )
    assert "20 was retracted by agent (row 2); give a key to bring it back" in refusal
    assert done["readings"] == 1


def test_ask_and_forecast_tools_warn_of_a_site_with_equal_readings(tmp_path: Path) -> None:
    names = [f"P{i}" for i in range(6)]
    domain = Candidates(np.arange(6.0)[:, None])
    with Campaign.create(
        tmp_path / "c.db", bandit_on(domain), about={"names": json.dumps(names)}
    ) as campaign:
        for t in range(20):
            y = np.sin(t + np.arange(6.0))
            y[3] = 0.5
            campaign.tell(domain.X, y, t)
        asked, predicted, other = call_all(
            campaign,
            [("ask", {"available": ["P3"]}), ("forecast", {}), ("forecast", {"sites": ["P1"]})],
        )
    text = "P3: stuck: its last 20 readings are equal"
    assert asked["warnings"] == predicted["warnings"] == [text]
    assert "warnings" not in other
