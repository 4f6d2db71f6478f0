"""Campaigns: reopened, shared, with experts, repeated calls, damaged files, snapshots, copies."""

import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.players import KERNEL, LINE, NOISE, RecordingWaveExpert, noisy_wave
from tests.helpers.recipes import build
from tests.helpers.refusals import assert_refused
from tvbandits import Bandit, Box, Campaign, Clock, policies
from tvbandits.campaign import (
    BusyError,
    ConflictError,
    DamagedCampaignError,
    ExpertNeededError,
    NoCampaignError,
    StorageError,
    shared,
)
from tvbandits.campaign.names import Names
from tvbandits.campaign.replay import JournaledExpert, Replay
from tvbandits.campaign.store.store import SCHEMA, Row, Store
from tvbandits.experts import Budgeted, Calibrated, CallableExpert
from tvbandits.experts.protocol import Answers, ExpertError, state_of
from tvbandits.io import SavedFileError
from tvbandits.queries import KDPP, LogSchedule


def plain(seed: int = 3) -> Bandit:
    return policies.tv_gp_ucb(
        LINE, kernel=KERNEL, noise_variance=NOISE, forgetting_rate=0.05, seed=seed
    )


def asking(expert: Any, **more: Any) -> Bandit:
    values = {"noise_variance": NOISE, "expert": expert, "queries_per_step": 2, **more}
    bandit: Bandit = build(policies.frugal_gp_ucb, LINE, kernel=KERNEL, **values)
    return bandit


def truth(X: Any, t: float) -> Any:
    return np.cos(X[:, 0] + t / 9)


def play(player: Any, first: int, last: int) -> None:
    for t in range(first, last + 1):
        X = player.ask(float(t))
        player.tell(X, noisy_wave(X, float(t)), float(t))


def execute(path: str | Path, *commands: str) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        for command in commands:
            file.execute(command)


def test_campaign_open_continues_as_a_bandit_that_was_never_closed(tmp_path: Path) -> None:
    place, twin = tmp_path / "campaign.db", plain()
    Campaign.create(place, plain(), snapshot_every=7).close()
    for first in range(1, 13, 3):
        with Campaign.open(place, snapshot_every=7) as campaign:
            play(campaign, first, first + 2)
        play(twin, first, first + 2)
    with Campaign.open(place) as campaign:
        assert campaign.state == twin.state
        assert np.array_equal(campaign.predict(LINE.X, 14.0), twin.predict(LINE.X, 14.0))
        assert np.array_equal(campaign.recommend(14.0), twin.recommend(14.0))
        assert campaign.history.equals(twin.history)
        found = campaign.verify()
        assert (found.consistent, found.operations, found.rows) == (True, 24, 24)
        assert found.snapshots == 3


def test_campaign_takes_a_snapshot_after_a_slow_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "campaign.db"
    Campaign.create(place, plain()).close()
    for seconds, rows in (1e9, 2), (0.0, 4):
        monkeypatch.setattr(shared, "SLOW_REPLAY", seconds)
        with Campaign.open(place) as campaign:
            t = float(rows)
            campaign.tell(campaign.ask(t), [0.1], t)
            assert campaign.verify().snapshots == (2 if seconds == 0.0 else 0)


def test_campaign_asks_its_expert_each_question_once_over_many_openings(tmp_path: Path) -> None:
    place = tmp_path / "campaign.db"
    sold: list[float] = []

    def seller(X: Any, t: float) -> Any:
        sold.extend(X[:, 0])
        return truth(X, t)

    def expert() -> Any:
        return Budgeted(CallableExpert(seller, 0.02), total=9)

    twin = asking(Budgeted(CallableExpert(truth, 0.02), total=9))
    Campaign.create(place, asking(expert()), snapshot_every=5).close()
    for t in range(1, 9):
        with Campaign.open(place, expert=expert(), snapshot_every=5) as campaign:
            play(campaign, t, t)
            state = campaign.state
        play(twin, t, t)
    assert state == twin.state
    assert len(sold) == 9
    with Campaign.open(place) as looked_at:
        assert looked_at.verify().consistent
        assert looked_at.status.questions == twin.info.queries.total_asked
        assert_refused(ExpertNeededError, "needed to ask and to tell", looked_at.ask, 9.0)
        assert looked_at.state.queries.expert == twin.state.queries.expert


def test_campaign_open_restores_the_state_of_an_expert_from_before_the_campaign(
    tmp_path: Path,
) -> None:
    spent = Budgeted(CallableExpert(truth, 0.02), total=9)
    spent.query(LINE.X[:4], 0.0)
    Campaign.create(tmp_path / "campaign.db", asking(spent)).close()
    again = Budgeted(CallableExpert(truth, 0.02), total=9)
    with Campaign.open(tmp_path / "campaign.db", expert=again) as campaign:
        campaign.ask(1.0)
    assert state_of(again) == state_of(spent)


def test_campaign_open_gives_an_expert_all_rewards_also_after_predict(tmp_path: Path) -> None:
    def bandit() -> Bandit:
        expert = Calibrated(CallableExpert(truth, 0.02))
        return policies.sparq_gp_ucb(
            LINE,
            kernel=KERNEL,
            noise_variance=NOISE,
            expert=expert,
            queries_per_step=KDPP(LogSchedule(2.0, every=4)),
        )

    twin, place = bandit(), tmp_path / "campaign.db"
    play(twin, 1, 8)
    with Campaign.create(place, bandit()) as campaign:
        play(campaign, 1, 7)
    with Campaign.open(place, expert=Calibrated(CallableExpert(truth, 0.02))) as campaign:
        campaign.predict(LINE.X, 8.0)  # by a bandit that has no expert
        play(campaign, 8, 8)
        assert campaign.state == twin.state


def test_replay_restores_the_expert_state_of_a_failed_operation(tmp_path: Path) -> None:
    expert, spent = (Budgeted(CallableExpert(truth, 0.02), total=9) for _ in range(2))
    spent.query(LINE.X[:4], 1.0)
    body = {"intent": {}, "reply": {"expert_state": state_of(spent)}, "failure": {"error": "none"}}
    with Campaign.create(tmp_path / "campaign.db", asking(expert)) as campaign:
        replay = Replay(campaign._store.snapshot(), True, expert, {})
        for seq, kind in enumerate(body, 1):
            replay.follow(Row(seq, kind, None, "", "", body[kind]))
    assert state_of(expert) == state_of(spent)


@pytest.mark.parametrize("again", [1.0, 2.0])
def test_journaled_expert_reuses_an_unwritten_answer_for_the_same_question_only(
    again: float,
) -> None:
    expert = RecordingWaveExpert()
    record, full = JournaledExpert(expert), [True]

    def write(kind: str, body: Any) -> None:  # noqa: ARG001
        if kind == "reply" and full:
            raise StorageError("the disk is full")

    record.prepare((), write)
    assert_refused(StorageError, "the disk is full", record.query, LINE.X[:2], 1.0)
    full.clear()
    record.prepare((), write)
    record.query(LINE.X[:2], again)
    assert [t for _, t in expert.queries] == ([1.0] if again == 1.0 else [1.0, 2.0])


def test_campaign_open_is_consistent_while_others_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Campaign.create(tmp_path / "campaign.db", plain()) as writer:
        page, snapshot = Store._page, Store.snapshot

        def slowly(read: Any) -> Any:
            def reading(store: Store, *given: Any) -> Any:
                found = read(store, *given)
                if store is not writer._store:  # as if others wrote between any two reads
                    writer.tell(LINE.X[:1], [0.1])
                    writer.snapshot()
                return found

            return reading

        monkeypatch.setattr(Store, "_page", slowly(page))
        monkeypatch.setattr(Store, "snapshot", slowly(snapshot))
        with Campaign.open(tmp_path / "campaign.db") as campaign:
            monkeypatch.undo()
            assert campaign.verify().consistent


def test_store_keeps_the_first_snapshot_and_the_latest_three(tmp_path: Path) -> None:
    with Campaign.create(tmp_path / "campaign.db", plain()) as campaign:
        with campaign._store.turn() as turn:
            for seq in range(1, 9):
                turn.snapshot(seq, "", b"")
        assert [each.seq for each in campaign._store.snapshots()] == [8, 7, 6, 0]


def test_campaign_executes_a_repeated_call_with_the_same_key_once(tmp_path: Path) -> None:
    campaign = Campaign.create(tmp_path / "campaign.db", plain())
    X = campaign.ask(1.0, key="a")
    assert np.array_equal(campaign.ask(1.0, key="a"), X)
    assert len(campaign.pending) == 1
    campaign.tell(X, [0.25], 1.0, key="b")
    campaign.tell(X, [0.25], 1.0, key="b")
    assert campaign.status.readings == 1
    message = (
        r"the key 'b' belongs to another call: tell .*0\.25.*\(row 2, by .*this call is tell .*0\.5"
    )
    assert_refused(ConflictError, message, campaign.tell, X, [0.5], 1.0, key="b")
    with pytest.raises(ConflictError, match=r"another call: ask .* this call is tell"):
        campaign.tell(X, [0.5], 1.0, key="a")
    assert_refused(ConflictError, "this call is ask", campaign.ask, 2.0, key="a")
    assert [row.kind for row in campaign.journal()] == ["ask", "tell"]
    campaign.close()


def test_campaign_opened_twice_shares_its_rows_and_accepts_dates(tmp_path: Path) -> None:
    place = tmp_path / "campaign.db"
    clock = Clock("1h", pd.Timestamp("2026-01-01", tz="Europe/Berlin"))
    one = Campaign.create(place, plain(), clock=clock, who="one", about={"title": "none"})
    two = Campaign.open(place, who="two")
    X = one.ask("2026-01-01T05:00+01:00")
    assert np.array_equal(two.pending, X)
    two.tell(X, [np.nan])
    assert (one.status.failed, one.status.pending, one.status.time) == (1, 0, 5.0)
    one.ask("2026-01-01T06:00+01:00", n=2, available=[3, 4, 7])
    two.drop(one.pending[:1])
    for t in (1e9, [1e9]):  # no date, of which nobody could read the history
        assert_refused(ValueError, "within 292 years of 1970", one.tell, X, [1.0], t)
    assert str(one.history["time"][0]) == "2026-01-01 05:00:00+01:00"
    assert {row.who for row in one.journal()} == {"one", "two"}
    assert one.about == {"title": "none"}
    assert repr(two.clock) == repr(clock)
    assert one.verify().consistent
    one.close()
    two.close()


def test_campaign_questions_and_answer_match_those_of_a_bandit(tmp_path: Path) -> None:
    place, twin = tmp_path / "campaign.db", asking(None)
    Campaign.create(place, asking(None)).close()
    for t in (1.0, 2.0, 3.0):
        for player in (twin, Campaign.open(place)):
            X = player.ask(t)
            player.tell(X, noisy_wave(X, t), t)
            asked = (
                player.questions(key="q") if t == 3.0 and player is not twin else player.questions()
            )
            if len(asked):
                player.answer(asked, truth(asked, t), t, 0.03)
    with Campaign.open(place) as campaign:
        assert campaign.state == twin.state
        assert campaign.verify().consistent
        assert campaign.status.answers == len(twin.state.answers) > 0


class Dies:
    """An expert whose process is interrupted during an answer."""

    def query(self, X: Any, t: float) -> Answers:  # noqa: ARG002
        raise KeyboardInterrupt


class Wrong:
    """An expert that refuses every question."""

    def query(self, X: Any, t: float) -> Answers:  # noqa: ARG002
        raise TypeError("no such probe")


def test_campaign_tell_completes_a_call_that_another_process_began(tmp_path: Path) -> None:
    place, twin = tmp_path / "campaign.db", asking(CallableExpert(truth, 0.02))
    Campaign.create(place, asking(CallableExpert(truth, 0.02))).close()
    with Campaign.open(place, expert=CallableExpert(truth, 0.02)) as campaign:
        play(campaign, 1, 2)
        X = campaign.ask(3.0)
    play(twin, 1, 2)
    Y = twin.ask(3.0)
    twin.tell(Y, noisy_wave(Y, 3.0), 3.0)
    with Campaign.open(place, expert=Dies()) as campaign, pytest.raises(KeyboardInterrupt):
        campaign.tell(X, noisy_wave(X, 3.0), 3.0, key="late")
    with Campaign.open(place) as looked_at:
        assert (looked_at.status.open, looked_at.status.in_doubt) == ("tell", 1)
        assert looked_at.status.readings == 2
    with Campaign.open(place, expert=CallableExpert(truth, 0.02)) as campaign:
        campaign.tell(X, noisy_wave(X, 3.0), 3.0, key="late")
        assert campaign.state == twin.state
        assert campaign.status.in_doubt == 1


def test_campaign_tell_records_an_error_of_its_expert_and_can_be_repeated(tmp_path: Path) -> None:
    place = tmp_path / "campaign.db"
    with Campaign.create(place, asking(Wrong())) as campaign:
        X = campaign.ask(1.0)
        assert_refused(ExpertError, "no such probe", campaign.tell, X, [0.5], 1.0, key="k")
        assert campaign.journal()[-1].body["error"].startswith("ExpertError: ")
        assert campaign.status.readings == 0
    with Campaign.open(place, expert=RecordingWaveExpert()) as campaign:
        campaign.tell(X, [0.5], 1.0, key="k")
        assert campaign.verify().consistent


COLUMNS = ("seq", "kind", "key", "who", "at", "body", "digest")


@pytest.mark.parametrize("column", COLUMNS)
def test_campaign_open_finds_a_changed_row(column: str, tmp_path: Path) -> None:
    place = tmp_path / "campaign.db"
    with Campaign.create(place, plain(), snapshot_every=100) as campaign:
        play(campaign, 1, 3)
    other = f"replace({column}, '1', '2') || ' '"
    change = {"seq": "seq + 100", "key": "'other'"}.get(column, other)
    execute(place, f"UPDATE journal SET {column} = {change} WHERE seq = 4")
    assert_refused(DamagedCampaignError, "row 4", Campaign.open, place)


def test_campaign_open_finds_missing_rows(tmp_path: Path) -> None:
    place = tmp_path / "campaign.db"
    with Campaign.create(place, plain(), snapshot_every=6) as campaign:
        play(campaign, 1, 3)
    for rows, message in (("seq = 2", "row 2 "), ("seq > 5", "after row 6")):
        copy = tmp_path / "copy.db"
        shutil.copy(place, copy)
        execute(copy, f"DELETE FROM journal WHERE {rows}")
        assert_refused(DamagedCampaignError, message, Campaign.open, copy)
    execute(place, "UPDATE snapshots SET data = zeroblob(20) WHERE seq = 6")
    with pytest.raises(DamagedCampaignError, match="after row 6"):
        Campaign.open(place)


def test_campaign_ask_names_the_file_with_a_snapshot_of_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Campaign.create(tmp_path / "c.db", plain()) as campaign:
        monkeypatch.setattr("tvbandits.io.VERSION", 0)
        with pytest.raises(SavedFileError, match=r"c\.db: .* version \d+.* 0"):
            campaign.ask(1.0)


def test_campaign_open_and_create_refuse_other_files_bandits_and_versions(tmp_path: Path) -> None:
    assert_refused(NoCampaignError, "there is no campaign", Campaign.open, tmp_path / "nothing.db")
    with pytest.raises(NoCampaignError, match="'mysql:"):
        Campaign.open("mysql://there/db")
    match, other = "bandit must be", policies.uniform(LINE)
    assert_refused(ValueError, match, Campaign.create, tmp_path / "new.db", other)
    other = tmp_path / "other.db"
    other.symlink_to(other)
    assert_refused(ValueError, r"other\.db: ", Campaign.open, other)  # a loop
    other.unlink()
    Campaign.create(other, plain()).close()
    for version in (1, 4, 99):
        schema = f"json_set(body, '$.schema', {version})"
        execute(other, f"UPDATE journal SET body = {schema} WHERE seq = 0")
        assert_refused(NoCampaignError, f"version {version}; .*{SCHEMA}", Campaign.open, other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE journal SET body = zeroblob(200001) WHERE seq = 0", "more than 200000 "),
        ("UPDATE snapshots SET data = zeroblob(200001)", "more than 200000 "),
        ("UPDATE journal SET body = hex(zeroblob(100001))", "more than 200000 "),
    ],
)
def test_campaign_open_refuses_a_row_larger_than_the_limit(
    change: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "campaign.db"
    with Campaign.create(place, plain()) as campaign:
        campaign.ask(1.0)
    execute(place, change)
    monkeypatch.setenv("TVBANDITS_READ_UNPACKED_BYTES", "200000")
    with pytest.raises(DamagedCampaignError, match=message), Campaign.open(place) as campaign:
        campaign.state  # noqa: B018 - plays the rows


def test_campaign_ask_refuses_a_result_too_long_for_a_row(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tvbandits.campaign.store.store.LONGEST_BODY", 1_000)
    with Campaign.create(tmp_path / "campaign.db", plain()) as campaign:
        with pytest.raises(StorageError, match=r"ask has .* characters, .* 1000"):
            campaign.ask(1.0, n=300)
        assert len(campaign.ask(1.0, n=3)) == 3


def test_campaign_writers_wait_for_each_other_and_readers_do_not(tmp_path: Path) -> None:
    place = tmp_path / "campaign.db"
    inside, leave = threading.Event(), threading.Event()

    class Slow:
        def query(self, X: Any, t: float) -> Answers:
            inside.set()
            assert leave.wait(60)
            return Answers(truth(X, t), 0.02)

    with Campaign.create(place, asking(Slow())) as campaign:
        X = campaign.ask(1.0)
        teller = threading.Thread(target=campaign.tell, args=(X, [0.5], 1.0))
        teller.start()
        assert inside.wait(60)
        with Campaign.open(place, expert=RecordingWaveExpert(), timeout=0.1) as other:
            assert (other.status.open, other.status.readings) == ("tell", 0)
            assert len(other.predict(LINE.X)[0]) == 41
            assert len(campaign.predict(LINE.X)[0]) == 41
            assert_refused(BusyError, r"writing for longer than 0\.1 s", other.ask, 2.0)
        leave.set()
        teller.join()
        assert campaign.status.readings == 1


def test_campaign_backup_is_consistent_while_others_write(tmp_path: Path) -> None:
    place, copies = tmp_path / "campaign.db", [tmp_path / f"copy-{i}.db" for i in range(5)]
    with Campaign.create(place, plain()) as campaign:
        writer = threading.Thread(target=play, args=(campaign, 1, 12))
        writer.start()
        for copy in copies:
            campaign.backup(copy)
        writer.join()
        campaign.backup(tmp_path / "last.db")
    for copy in (*copies, tmp_path / "last.db"):
        with Campaign.open(copy) as again:
            assert again.verify().consistent
            told = again.status.readings
    assert told == 12


def test_campaign_ask_refuses_a_function_as_available(tmp_path: Path) -> None:
    box = policies.tv_gp_ucb(
        Box([[0, 1]]), kernel=RBF(0.2), noise_variance=NOISE, forgetting_rate=0.05
    )
    with Campaign.create(tmp_path / "campaign.db", box) as campaign:
        assert campaign.ask(1.0).shape == (1, 1)
        with pytest.raises(ValueError, match="a function cannot be written"):
            campaign.ask(1.0, available=lambda X: X[:, 0] > 0.5)


def test_campaign_ask_replays_ranges_of_available_points_of_a_box(tmp_path: Path) -> None:
    place = tmp_path / "campaign.db"
    box = policies.tv_gp_ucb(
        Box([[0, 1]]), kernel=RBF(0.2), noise_variance=NOISE, forgetting_rate=0.05
    )
    with Campaign.create(place, box) as campaign:
        for t in (1.0, 2.0, 3.0):
            X = campaign.ask(t, available={"x0": (0.5, 0.75)}, key=f"ask {t}")
            assert 0.5 <= X.item() <= 0.75
            campaign.tell(X, [0.1 * t], t)
        again = campaign.ask(3.0, available={"x0": (0.5, 0.75)}, key="ask 3.0")
        np.testing.assert_array_equal(again, X)
        with pytest.raises(ConflictError):
            campaign.ask(3.0, available={"x0": (0.5, 0.8)}, key="ask 3.0")
    with Campaign.open(place) as fresh:
        assert fresh.verify().consistent


def test_campaign_journal_returns_the_rows_after_a_given_row(tmp_path: Path) -> None:
    with Campaign.create(tmp_path / "campaign.db", plain()) as campaign:
        assert campaign.journal() == campaign.journal(5) == []
        play(campaign, 1, 4)
        whole = campaign.journal()
        for since in (0, 1, 5, 8, 9, 10**15):
            assert campaign.journal(since) == [row for row in whole if row.seq > since]


def test_campaign_pending_points_are_those_of_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, name = tmp_path / "campaign.db", Names.name
    with Campaign.create(place, plain()) as campaign, Campaign.open(place) as other:
        campaign.ask(1.0, 2)
        looking = threading.Thread(target=lambda: campaign.status)

        def meanwhile(names: Names, x: Any) -> str:
            monkeypatch.undo()
            other.ask(2.0, 3)
            looking.start()
            looking.join(0.5)
            return name(names, x)

        monkeypatch.setattr(Names, "name", meanwhile)
        assert len(campaign.pending_points) == 2
        looking.join()
        assert len(campaign.pending_points) == campaign.status.pending == 5
