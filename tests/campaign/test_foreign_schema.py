"""Files with foreign triggers, views, tables or columns are refused before any of them runs."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sql

from tests.attack.postgresql import Server, why_not
from tests.campaign.test_campaign import execute, plain, play
from tvbandits import Campaign
from tvbandits.campaign import NoCampaignError
from tvbandits.campaign.store.store import TOKENS

FOREIGN = {
    "trigger that deletes": (
        "CREATE TRIGGER gone AFTER INSERT ON journal BEGIN "
        "DELETE FROM journal WHERE seq = new.seq; END"
    ),
    "trigger called as a table": (
        "CREATE TRIGGER journal AFTER INSERT ON journal BEGIN SELECT 1; END"
    ),
    "trigger on snapshots": "CREATE TRIGGER s BEFORE DELETE ON snapshots BEGIN SELECT 1; END",
    "view": "CREATE VIEW latest AS SELECT * FROM journal",
    "table": "CREATE TABLE other (x)",
    "index": "CREATE INDEX fast ON journal (at)",
    "column": "ALTER TABLE journal ADD COLUMN more TEXT",
    "a table of tokens that is not ours": "CREATE TABLE tokens (name TEXT)",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made") / "c.db"
    with Campaign.create(place, plain()) as campaign:
        play(campaign, 1, 2)
    return place


@pytest.mark.parametrize("case", FOREIGN)
def test_campaign_open_refuses_a_foreign_schema_and_leaves_the_file_unchanged(
    case: str, made: Path, tmp_path: Path
) -> None:
    place = tmp_path / "c.db"
    shutil.copy(made, place)
    execute(place, FOREIGN[case])
    before = place.read_bytes()
    with pytest.raises(NoCampaignError, match="not a campaign"):
        Campaign.open(place)
    assert place.read_bytes() == before
    with closing(sqlite3.connect(place)) as file:
        assert file.execute("SELECT count(*) FROM journal").fetchone() == (5,)


def test_campaign_open_removes_control_characters_from_the_name_of_a_trigger(
    made: Path, tmp_path: Path
) -> None:
    place = tmp_path / "c.db"
    shutil.copy(made, place)
    name = "t\x1b[2J\u202e"
    execute(place, f'CREATE TRIGGER "{name}" AFTER INSERT ON journal BEGIN SELECT 1; END')
    with pytest.raises(NoCampaignError) as refused:
        Campaign.open(place)
    assert str(refused.value).isprintable()


def test_campaign_open_accepts_tables_of_tokens_and_statistics(made: Path, tmp_path: Path) -> None:
    place = tmp_path / "c.db"
    shutil.copy(made, place)
    with Campaign.open(place) as campaign:
        TOKENS.create(campaign._store.database.engine)
    execute(place, "ANALYZE", "VACUUM")
    with Campaign.open(place) as campaign:
        assert campaign.verify().consistent
        campaign.backup(tmp_path / "copy.db")
    with Campaign.open(tmp_path / "copy.db") as copy:
        assert copy.status.readings == 2


@pytest.mark.slow
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_campaign_open_refuses_a_foreign_trigger_or_rule_on_a_server(tmp_path: Path) -> None:
    foreign = {
        "trigger": "CREATE TRIGGER gone BEFORE UPDATE ON journal FOR EACH ROW "
        "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "rule": "CREATE RULE gone AS ON INSERT TO journal DO INSTEAD NOTHING",
    }
    with Server(tmp_path) as server:
        with Campaign.create(server.url, plain()) as campaign:
            play(campaign, 1, 1)
            for kind, statement in foreign.items():
                engine = campaign._store.database.engine
                with engine.begin() as connection:
                    connection.execute(sql.text(statement))
                with pytest.raises(NoCampaignError, match=f"the {kind} 'gone'"):
                    Campaign.open(server.url)
                with engine.begin() as connection:
                    connection.execute(sql.text(f"DROP {kind} gone ON journal"))
        with Campaign.open(server.url) as campaign:
            assert campaign.verify().consistent
