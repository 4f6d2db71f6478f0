"""Campaigns beside other files: copies, pages, foreign and damaged files, closed campaigns."""

import gc
import os
import resource
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.attack.postgresql import Server, why_not
from tests.campaign.test_campaign import Dies, Wrong, asking, execute, plain, play, truth
from tests.helpers.disks import DEFAULT_SYNCHRONOUS
from tests.helpers.folders import fill_once
from tests.helpers.players import noisy_wave
from tests.helpers.refusals import assert_refused
from tvbandits import Campaign, ExpertError
from tvbandits.campaign import (
    CampaignError,
    ClosedCampaignError,
    DamagedCampaignError,
    NoCampaignError,
    StorageError,
)
from tvbandits.campaign.service.page import campaign_page
from tvbandits.campaign.store import databases
from tvbandits.cli.output import without_formula
from tvbandits.experts import CallableExpert


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the campaign `m.db` of three rewards in it."""
    monkeypatch.chdir(tmp_path)

    def new() -> None:
        with Campaign.create("m.db", plain()) as campaign:
            play(campaign, 1, 3)

    fill_once("three rewards", tmp_path, new)
    return tmp_path


def test_sqlite_file_synchronizes_every_commit_with_the_disk(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "SYNCHRONOUS", DEFAULT_SYNCHRONOUS)
    with databases.SQLiteFile(folder / "m.db").engine.connect() as connection:
        assert (
            connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        )  # FULL, in SQLite's words


def found(folder: Path) -> dict[str, Any]:
    """Everything in a folder, but the campaign's log and locks: contents, and where links lead."""
    files = {path.name: path for path in folder.rglob("*")}
    return {
        name: path.readlink()
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else "no file"
        for name, path in files.items()
        if name not in ("m.db-wal", "m.db-shm", "m.db-turn")
    }


def other_campaign(path: Path) -> None:
    with Campaign.create(path, plain(5)) as campaign:
        play(campaign, 1, 2)
    Path(f"{path}-turn").unlink()


IN_THE_WAY: dict[str, Callable[[Path], object]] = {
    "another campaign": other_campaign,
    "a text": lambda path: path.write_text("a letter\n"),
    "an empty file": lambda path: path.touch(),
    "a folder": lambda path: path.mkdir(),
    "a hard link to the campaign": lambda path: path.hardlink_to(path.parent / "m.db"),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a pipe": lambda path: os.mkfifo(path),
}


@pytest.mark.parametrize("what", IN_THE_WAY)
def test_campaign_backup_replaces_no_existing_file(folder: Path, what: str) -> None:
    IN_THE_WAY[what](folder / "there.db")
    before = found(folder)
    with Campaign.open("m.db") as campaign:
        for target in ("there.db", folder / "there.db"):
            with pytest.raises(CampaignError, match=r"there\.db already exists$"):
                campaign.backup(target)
        for itself in ("m.db", folder / "m.db", "../" + folder.name + "/m.db"):
            assert_refused(CampaignError, r"m\.db already exists$", campaign.backup, itself)
        assert found(folder) == before
        play(campaign, 4, 4)
    with Campaign.open("m.db") as campaign:
        assert (campaign.status.readings, campaign.verify().consistent) == (4, True)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_campaign_backup_and_create_refuse_a_path_with_the_log_of_another_database(
    end: str,
) -> None:
    with Campaign.open("m.db") as campaign:
        play(campaign, 4, 9)
        shutil.copy("m.db-wal", f"copy.db{end}")
        with pytest.raises(CampaignError, match=rf"copy\.db{end} already exists, and would be"):
            campaign.backup("copy.db")
        with pytest.raises(CampaignError, match=rf"new\.db{end}: "):
            campaign.backup(f"new.db{end}")
    assert not Path("copy.db").exists()
    with pytest.raises(CampaignError, match=rf"copy\.db{end} already exists, and would be"):
        Campaign.create("copy.db", plain())
    assert not Path("copy.db").exists()


@contextmanager
def little_room(room: int) -> Iterator[None]:
    """No file may grow beyond so many bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize("room", [0, 4096, 20_000])
def test_campaign_backup_leaves_no_partial_copy_on_a_full_disk(folder: Path, room: int) -> None:
    Path(".copy.db.part").write_text("of somebody who was killed")
    with Campaign.open("m.db") as campaign:
        before = found(folder)
        with little_room(room):
            assert_refused(
                StorageError, r"^copy.db: cannot be written: ", campaign.backup, "copy.db"
            )
        assert found(folder) == before
        with pytest.raises(StorageError, match=r"^none/copy\.db: cannot be written: "):
            campaign.backup("none/copy.db")
        campaign.backup("copy.db")
    with Campaign.open("copy.db") as copy:
        assert (copy.status.readings, copy.verify().consistent) == (3, True)


@pytest.mark.slow
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_campaign_on_a_server_refuses_backup_and_a_second_create(tmp_path: Path) -> None:
    with Server(tmp_path) as server, Campaign.create(server.url, asking(Dies())) as campaign:
        assert_refused(CampaignError, "pg_dump", campaign.backup, tmp_path / "copy.db")
        assert not [*tmp_path.iterdir()]
        with pytest.raises(KeyboardInterrupt):
            campaign.tell(campaign.ask(1.0), [0.5], 1.0)
        assert campaign.status.in_doubt == 1
        assert_refused(CampaignError, "already exists", Campaign.create, server.url, plain())
        campaign.close()
        assert_refused(ClosedCampaignError, "is closed", campaign.ask, 2.0)


# --- tables and pages


def test_report_replaces_only_an_earlier_page_of_the_same_campaign(folder: Path) -> None:
    pytest.importorskip("jinja2", reason="no jinja2: no report")
    from tvbandits.cli.campaign_actions import report as write

    name = "page.html"
    other_campaign(folder / "other.db")
    write("m.db", name)
    first = Path(name).read_bytes()
    write("other.db", f"other-{name}")
    with Campaign.open("m.db") as campaign:
        play(campaign, 4, 5)
    write("m.db", name)
    assert Path(name).read_bytes() != first
    Path(f"link-{name}").symlink_to(name)
    Path(f"letter-{name}").write_text("a,b\n1,2\n")
    Path(f"half-{name}").write_bytes(first[:10])
    Path(f"base-{name}").hardlink_to("m.db")
    Path(f"folder-{name}").mkdir()
    for kind in ("other", "link", "letter", "half", "base", "folder"):
        before = found(folder)
        with pytest.raises(ValueError, match=rf"{kind}-{name} already exists, and is not"):
            write("m.db", f"{kind}-{name}")
        assert found(folder) == before
    with Campaign.open("m.db") as campaign:
        assert (campaign.status.readings, campaign.verify().consistent) == (5, True)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["m.db-wal", "m.db-shm", "m.db-journal", "m.db-turn"])
def test_report_refuses_the_name_of_a_file_of_the_database(name: str) -> None:
    from tvbandits.cli.campaign_actions import report

    Path("m.db-turn").unlink()
    assert_refused(CampaignError, rf"{name}: ", report, "m.db", name)
    assert not Path(name).exists()


FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\uff1d1", " =1", "a;=1", "a; +1")


def test_without_formula_disables_every_formula() -> None:
    for text in FORMULAS:
        cells = without_formula(text).split(";")
        assert not [cell for cell in cells if cell.strip()[0] in "=+-@\uff1d"]
        assert ";".join(cells).replace("'", "") == text


# --- files of other programs


CATS, WAL = "CREATE TABLE cats (name TEXT)", "PRAGMA journal_mode = WAL"
THREE = [f"CREATE TABLE {name} (cat TEXT)" for name in ("about", "journal", "snapshots")]


STRANGERS: dict[str, Callable[[Path], object]] = {
    "another database": lambda path: execute(path, CATS),
    "the same tables": lambda path: execute(path, *THREE),
    "in WAL mode": lambda path: execute(path, WAL, CATS),
    "a text": lambda path: path.write_text("a letter " * 999),
    "an empty file": lambda path: path.touch(),
    "views alone": lambda path: execute(path, "CREATE VIEW v AS SELECT 1"),
    "a heading that is no text": lambda path: (
        execute(path, CATS),
        path.write_bytes(path.read_bytes().replace(b"TABLE cats", b"T\xc5BLE cats"))),
    "a journal": lambda path: (execute(path, CATS), Path(f"{path}-journal").write_text("hot")),
    "a folder": lambda path: path.mkdir(),
}  # fmt: skip


@pytest.mark.parametrize("what", STRANGERS)
def test_campaign_open_and_create_leave_foreign_files_unchanged(tmp_path: Path, what: str) -> None:
    place = tmp_path / "theirs.db"
    STRANGERS[what](place)
    before = found(tmp_path)
    assert_refused(CampaignError, r"theirs\.db: ", Campaign.open, place)
    assert found(tmp_path) == before
    if what != "an empty file":
        assert_refused(CampaignError, r"theirs\.db", Campaign.create, place, plain())
        assert found(tmp_path) == before


def test_campaign_open_leaves_a_foreign_database_in_use_unchanged(tmp_path: Path) -> None:
    place = tmp_path / "theirs.db"
    with closing(sqlite3.connect(place)) as file:
        file.execute(WAL)
        file.execute(CATS)
        before = found(tmp_path)
        assert_refused(NoCampaignError, r"it has the tables \['cats'\]", Campaign.open, place)
        assert {**found(tmp_path), "theirs.db-shm": b""} == {**before, "theirs.db-shm": b""}


def test_campaign_without_close_closes_its_connections_once_deleted(folder: Path) -> None:
    campaign = Campaign.create("left.db", plain())
    campaign.ask(1.0)
    assert (folder / "left.db-wal").exists()
    del campaign
    gc.collect()
    assert not (folder / "left.db-wal").exists()  # the last connection deletes it


def test_campaign_keeps_its_file_through_links_other_folders_and_a_move(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("away").mkdir()
    Path("link.db").symlink_to("m.db")
    with Campaign.open("link.db", who="a") as linked, Campaign.open("m.db", who="b") as campaign:
        monkeypatch.chdir("away")
        play(linked, 4, 4)
        play(campaign, 5, 5)
        assert linked.status.readings == campaign.status.readings == 5
        assert not [*Path().iterdir()]
        assert {path.name for path in folder.iterdir() if "turn" in path.name} == {"m.db-turn"}
    monkeypatch.chdir(folder)
    with Campaign.open("m.db") as campaign:
        campaign._store.database.engine.dispose()
        Path("m.db").rename("moved.db")
        assert_refused(StorageError, "unable to open", campaign.ask, 6.0)
        assert not Path("m.db").exists()


FIELDS: dict[str, tuple[str, str]] = {
    "no row 0": ("DELETE FROM journal WHERE seq = 0", "version None"),
    "no version": ("UPDATE journal SET body = '{}' WHERE seq = 0", "row 0"),
    "odd version": (
        "UPDATE journal SET body = json_set(body, '$.schema', '²') WHERE seq = 0", "version ²"),
    "title": (
        "UPDATE journal SET body = json_set(body, '$.about.title', 'x') WHERE seq = 0", "row 0"),
    **{
        f"{column} {how} {row}": (
            f"UPDATE journal SET {column} = {value} WHERE seq = {row}", f"row {row}")
        for row in (0, 3)
        for column in ("kind", "key", "who", "at", "body", "digest")
        for how, value in (("bytes", "x'00ff'"), ("no text", "CAST(x'ff' AS TEXT)"))
    },
    "row": ("UPDATE journal SET seq = 'three' WHERE seq = 3", "row 3"),
    **{
        f"snapshot {column} {how}": (f"UPDATE snapshots SET {column} = {value}", "row 0")
        for column in ("data", "head", "checksum")
        for how, value in (("words", "'words'"), ("bytes", "x'00ff'"))
    },
}  # fmt: skip


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", FIELDS)
def test_campaign_open_names_the_row_of_a_damaged_field(name: str) -> None:
    change, where = FIELDS[name]
    execute("m.db", change)
    kind = NoCampaignError if "version " in where else DamagedCampaignError
    assert_refused(kind, rf"m\.db: .*{where}", Campaign.open, "m.db")


@pytest.mark.parametrize("text", ["{", "[1, 2]", '"ab"', '["a", "b"]', "[" * 9999, "{}"])
@pytest.mark.parametrize("name", ["coordinates", "names"])
def test_campaign_create_refuses_damaged_names_and_coordinates(
    tmp_path: Path, name: str, text: str
) -> None:
    assert_refused(
        ValueError, name, Campaign.create, tmp_path / "m.db", plain(), about={name: text}
    )


def test_campaign_budget_refuses_a_damaged_configuration(tmp_path: Path) -> None:
    for text in ("[", "expert = 3", "[expert]\nbudget = 'x'"):
        place = tmp_path / f"{len(text)}.db"
        with (
            Campaign.create(place, asking(truth_teller()), about={"config": text}) as campaign,
            pytest.raises(DamagedCampaignError, match=r"\.db: .*'config'"),
        ):
            _ = campaign.budget


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "body",
    [
        "[]",
        "7",
        "{}",
        '{"payload":{"t":1},"resolution":{},"result":7,"status":{}}',
        '{"payload":{"t":{},"n":[],"available":7},"resolution":{},"result":[],"status":{}}',
        '{"payload":{"t":1},"resolution":7,"result":[[0.0]],"status":{}}',
    ],
)
def test_campaign_names_a_row_of_another_form_with_a_valid_checksum(body: str) -> None:
    from tvbandits.campaign.store.store import digest_of

    with closing(sqlite3.connect("m.db")) as file, file:
        file.execute("DELETE FROM journal WHERE seq > 1")
        ((head,), _) = file.execute("SELECT digest FROM journal ORDER BY seq").fetchall()
        *_, row = file.execute(
            "SELECT seq, kind, key, who, at FROM journal ORDER BY seq"
        ).fetchall()
        digest = digest_of(head, *row, body)
        file.execute("UPDATE journal SET body = ?, digest = ? WHERE seq = 1", (body, digest))
    with pytest.raises(CampaignError, match=r"m\.db: row 1 "), Campaign.open("m.db") as campaign:
        _ = campaign.status


# --- closed, and in doubt

CALLS: dict[str, Callable[[Campaign], Any]] = {
    "ask": lambda c: c.ask(9.0),
    "tell": lambda c: c.tell([[0.0]], [1.0], 9.0),
    "predict": lambda c: c.predict([[0.0]], 9.0),
    "journal": lambda c: c.journal(),
    "backup": lambda c: c.backup("copy.db"),
    "verify": lambda c: c.verify(),
    "page": lambda campaign: campaign_page(campaign),
    "with": lambda c: c.__enter__(),
    **{
        name: lambda c, name=name: getattr(c, name)
        for name in ("pending", "history", "info", "state", "status", "recipe", "clock", "about")
    },
}


@pytest.mark.parametrize("name", CALLS)
def test_campaign_methods_refuse_a_closed_campaign(folder: Path, name: str) -> None:
    campaign = Campaign.open("m.db")
    assert len(campaign.pending) == 0
    campaign.close()
    campaign.close()
    before = found(folder)
    assert_refused(ClosedCampaignError, r"m\.db: the campaign is closed", CALLS[name], campaign)
    assert found(folder) == before
    assert not Path("m.db-wal").exists()
    assert repr(campaign) == "<Campaign at m.db>"


def truth_teller() -> CallableExpert:
    return CallableExpert(truth, 0.02)


def test_campaign_status_in_doubt_counts_questions_without_a_known_answer(tmp_path: Path) -> None:
    """The count stays if the expert is asked again, and if it is read from a snapshot."""
    place = tmp_path / "m.db"
    with Campaign.create(place, asking(truth_teller())) as campaign:
        play(campaign, 1, 2)
        assert campaign.status.in_doubt == 0
    for number, t in enumerate((3.0, 4.0), start=1):
        with Campaign.open(place, expert=Dies()) as campaign:
            X = campaign.ask(t)
            with pytest.raises(KeyboardInterrupt):
                campaign.tell(X, noisy_wave(X, t), t, key=f"{t}")
            assert campaign.status.in_doubt == number
        with Campaign.open(place, expert=Wrong()) as campaign:
            with pytest.raises(ExpertError, match="no such probe"):
                campaign.tell(X, noisy_wave(X, t), t, key=f"{t} again")
            assert campaign.status.in_doubt == number
        with Campaign.open(place, expert=truth_teller()) as campaign:
            campaign.tell(X, noisy_wave(X, t), t, key=f"{t}")
            campaign.snapshot()
            assert campaign.status.in_doubt == number
