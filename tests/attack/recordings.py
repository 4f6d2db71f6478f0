"""Damaged recordings: no campaign's file may be read with other values, without a word.

Bytes are flipped, cut off and overwritten, rows edited, deleted and moved; each copy is opened, played
again and verified, and gives what was recorded or an error that names the file.
"""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np

from tests.attack.bad_values import cut_off, flipped, overwritten
from tests.attack.report import SILENT, WRONG, Count, Found, Trial, in_the_loop, one_of
from tests.helpers.players import make_player as player, noisy_wave
from tvbandits import Campaign, State
from tvbandits.campaign import CampaignError

STEPS = 8

EDITS = (
    "UPDATE journal SET body = replace(body, '1', '2') WHERE seq = {row}",
    "UPDATE journal SET kind = 'dropped' WHERE seq = {row}",
    "UPDATE journal SET key = 'odd' WHERE seq = {row}",
    "UPDATE journal SET at = '2020-01-01' WHERE seq = {row}",
    "UPDATE journal SET seq = seq + 1000 WHERE seq = {row}",
    "UPDATE journal SET digest = '0' WHERE seq = {row}",
    "DELETE FROM journal",
    "DELETE FROM journal WHERE seq = {row}",
    "DELETE FROM journal WHERE seq > {row}",
    "DROP TABLE journal",
    "ALTER TABLE journal RENAME COLUMN body TO worth",
    "UPDATE journal SET who = 'odd' WHERE seq = 0",
    "UPDATE snapshots SET data = substr(data, 1, {row})",
    "PRAGMA user_version = 7",
)


def edited(path: Path, rng: np.random.Generator) -> None:
    """A row or a table is changed through SQLite itself: the file is sound, and says something else."""
    with closing(sqlite3.connect(path)) as connection, connection:
        # The last row, which no snapshot follows, may be taken out: nothing can tell.
        row = int(rng.integers(1, 2 * STEPS - 1))
        connection.execute(one_of(EDITS, rng).format(row=row))


def read(
    make_player: Path,
    way: Callable[[bytes, np.random.Generator], bytes] | None,
    truth: State,
    seed: int,
) -> str:
    """Damage a copy and read it."""
    path, rng = Path("copy.db"), np.random.default_rng(seed)
    shutil.copy(make_player, path)
    if way is None:
        edited(path, rng)
    else:
        path.write_bytes(way(path.read_bytes(), rng))
    try:
        with Campaign.open(path) as campaign:
            state, verified = campaign.state, campaign.verify()
    except CampaignError as error:
        if path.name not in str(error):
            raise Found(WRONG, f"the message does not name the file: {error}") from error
        return "refused by name"
    finally:
        for each in Path().glob("copy.db*"):
            each.unlink()
    if not verified.consistent:
        return "found by verify"
    if state != truth:
        raise Found(SILENT, f"other values are read: {state.rewards}")
    return "read as recorded"


@in_the_loop(1000, 40)
def attack(_: Count, count: int, seed: int) -> Iterator[Trial]:
    """Read so many damaged copies of one campaign."""
    make_player = Path("made.db")
    with Campaign.create(make_player, player("et-gp-ucb"), snapshot_every=5) as campaign:
        for t in np.arange(1.0, STEPS + 1):
            X = campaign.ask(t)
            campaign.tell(X, noisy_wave(X, t), t)
        truth = campaign.state
    for each in range(seed, seed + count):
        way = one_of((flipped, overwritten, cut_off, None), np.random.default_rng([each, 1]))
        name = "an edit" if way is None else way.__name__
        yield f"{name} of seed {each}", partial(read, make_player, way, truth, each)
