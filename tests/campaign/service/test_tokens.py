"""Tokens in the database of a campaign."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.attack.postgresql import Server, why_not
from tests.campaign.service.serving import new_bandit
from tests.helpers.refusals import assert_refused
from tvbandits import Campaign
from tvbandits.campaign.service import Tokens
from tvbandits.campaign.store.errors import ClosedCampaignError, NoCampaignError


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The file of a campaign."""
    Campaign.create(tmp_path / "c.db", new_bandit()).close()
    return tmp_path / "c.db"


def test_tokens_store_no_token_in_plain_text(place: Path) -> None:
    with Tokens(place) as tokens:
        assert (tokens.names, tokens.holder("tvb_x")) == ((), None)
        token = tokens.new("anna", ["read", "tell"])
        assert token not in repr(tokens)
        found = tokens.holder(token)
        assert found is not None
        assert (found.name, found.roles) == ("anna", {"read", "tell"})
        for wrong in (token[:-1], token + " ", token.upper(), "", "\udc80", "'; DROP TABLE tokens"):
            assert tokens.holder(wrong) is None
    for file in place.parent.iterdir():
        assert token.encode() not in file.read_bytes()
    with Tokens(place) as tokens:
        assert tokens.names == ("anna",)


@pytest.mark.parametrize(
    ("name", "roles", "value"),
    [
        ("anna", ["read"], "anna"),
        ("a b", ["read"], "a b"),
        ("", ["read"], "''"),
        ("n" * 65, ["read"], "n" * 65),
        ("bert", ["root"], "root"),
        ("bert", [], "read, tell, ask"),
    ],
)
def test_tokens_new_and_revoke_refuse_invalid_names_and_roles(
    place: Path, name: str, roles: list[str], value: str
) -> None:
    with Tokens(place) as tokens:
        tokens.new("anna", ["read"])
        assert_refused(ValueError, value, tokens.new, name, roles)
        assert tokens.names == ("anna",)
        assert_refused(ValueError, "carl", tokens.revoke, "carl")


def test_tokens_require_a_campaign(tmp_path: Path) -> None:
    assert_refused(NoCampaignError, "none.db", Tokens, tmp_path / "none.db")
    assert not [*tmp_path.iterdir()]
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE tokens (name TEXT)")
    assert_refused(NoCampaignError, "other.db", Tokens, tmp_path / "other.db")


def test_tokens_holder_refuses_closed_tokens(place: Path) -> None:
    tokens = Tokens(place)
    tokens.close()
    assert_refused(ClosedCampaignError, "c.db", tokens.holder, "tvb_x")


def test_tokens_keep_the_campaign_consistent_and_are_in_its_backup(place: Path) -> None:
    with Tokens(place) as tokens, Campaign.open(place) as campaign:
        token = tokens.new("anna", ["read"])
        campaign.tell([[0.0]], [1.0], 1)
        assert campaign.verify().consistent
        campaign.backup(place.with_name("copy.db"))
    with Tokens(place.with_name("copy.db")) as tokens:
        assert tokens.holder(token) is not None


def test_tokens_opened_twice_see_the_changes_of_each_other(place: Path) -> None:
    with Tokens(place) as one, Tokens(place) as other:
        anna = one.new("anna", ["read"])
        bert = other.new("bert", ["read"])
        assert_refused(ValueError, "bert", one.new, "bert", ["read"])
        other.revoke("anna")
        one.new("carl", ["read"])
        assert one.names == other.names == ("bert", "carl")
        assert one.holder(anna) is None
        assert one.holder(bert) is not None


WRITES = """
import sys
from tvbandits.campaign.service import Tokens
place, name = sys.argv[1:]
with Tokens(place) as tokens:
    sys.stdin.readline()
    for i in range(20):
        tokens.new(f"{name}{i:02}", ["read"])
        if i % 2:
            tokens.revoke(f"{name}{i:02}")
"""


@pytest.mark.slow
def test_tokens_store_the_changes_of_processes_that_write_at_once(place: Path) -> None:
    command = [sys.executable, "-c", WRITES, str(place)]
    running = [subprocess.Popen([*command, name], stdin=subprocess.PIPE) for name in "abc"]
    for each in running:
        assert each.stdin is not None
        each.stdin.write(b"now\n")
        each.stdin.flush()
    assert [each.wait(120) for each in running] == [0, 0, 0]
    for each in running:
        assert each.stdin is not None
        each.stdin.close()
    with Tokens(place) as tokens:
        assert set(tokens.names) == {f"{name}{i:02}" for name in "abc" for i in range(0, 20, 2)}


@pytest.mark.slow
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_tokens_work_for_a_campaign_on_a_server(tmp_path: Path) -> None:
    with Server(tmp_path) as server, Campaign.create(server.url, new_bandit()) as campaign:
        with Tokens(server.url) as one, Tokens(server.url) as other:
            token = one.new("anna", ["tell"])
            found = other.holder(token)
            assert found is not None
            assert (found.name, found.roles) == ("anna", {"tell"})
            assert_refused(ValueError, "anna", other.new, "anna", ["read"])
            other.revoke("anna")
            assert one.holder(token) is None
        campaign.tell([[0.0]], [1.0], 1)
        with Campaign.open(server.url) as again:
            assert again.verify().consistent
