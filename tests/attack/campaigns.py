"""Campaigns that are killed, cut and starved: nothing that was reported or paid for may be lost.

Several processes play one campaign with a query plan and an expert who sells answers and keeps a
ledger. They ask, tell, drop, bring answers of their own and make snapshots, all under the same keys, so
that each of them does what none of the others has done yet. They are killed by SIGKILL at random
instants. In the end every call that was reported as done must be on record once, every sale of the
ledger must be on record, `verify` must agree, and the state must be that of a plain bandit that nobody
killed, bit for bit.

After that, on SQLite: the same with a disk that is full again and again, with a write-ahead log that is
cut as by a loss of power, and from a disk that cannot be written. Half of the runs is
on PostgreSQL, where there is a server: that one is killed too.
"""

import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from tests.attack.postgresql import Server, why_not
from tests.attack.report import WRONG, Count, Found, Trial, in_the_loop
from tvbandits import Answers, Bandit, Campaign, Candidates, policies
from tvbandits.bandit.state import is_same_value
from tvbandits.campaign import BusyError, StorageError
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.validation import Array

SITES = Candidates(np.linspace(0.0, 10.0, 21)[:, None])
NOISE = 0.01
SNAPSHOT_EVERY = 9

WRITERS = 3


def reward(X: Array, t: float) -> Array:
    """A drifting reward with the noise of its point and time."""
    return np.sin(X[:, 0] / 2 + t / 20) + 0.1 * keyed_normal(0, 5, X, np.full(len(X), t))


def nap(longest: float) -> None:
    """Sleep, so that a kill falls here; the run does not depend on how long."""
    time.sleep(random.SystemRandom().uniform(0.0, longest))


class Shop:
    """An expert who sells each answer once, and hands it over again to who lost it.

    Parameters
    ----------
    ledger : Path
        Sales, on the disk before they are handed over.
    longest : float
        Seconds to sleep at most before that.
    """

    def __init__(self, ledger: Path, longest: float = 0.0) -> None:
        self.ledger, self.longest = ledger, longest

    def query(self, X: Array, t: float) -> Answers:
        """The reward with a noise of its own."""
        sold = {(x, at) for kind, x, at in sales(self.ledger)}
        lines = [
            json.dumps(["again" if (float(x), t) in sold else "sale", float(x), t]) for x in X[:, 0]
        ]
        handle = os.open(self.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, "".join(f"{line}\n" for line in lines).encode())
            os.fsync(handle)
        finally:
            os.close(handle)
        nap(self.longest)
        values = np.cos(X[:, 0]) + 0.1 * keyed_normal(0, 6, X, np.full(len(X), t))
        return Answers(values, 0.05, cost=float(len(X)))


def sales(ledger: Path) -> list[tuple[str, float, float]]:
    """(sale or again, x, t) of a ledger."""
    if not ledger.exists():
        return []
    lines = ledger.read_text().split("\n")[:-1]  # a line that was cut is no sale
    return [(kind, x, t) for kind, x, t in map(json.loads, lines)]


def begun(folder: Path) -> Bandit:
    """The bandit of a campaign, before anything."""
    expert = Shop(folder / "ledger.jsonl")
    return policies.frugal_gp_ucb(
        SITES, kernel=RBF(1.5), noise_variance=NOISE, expert=expert, queries_per_step=2, seed=7
    )


def step(player: Any, t: int, said: Callable[[str], None], keyed: bool) -> None:
    """One step of the plan, on a campaign or on a bandit."""

    def key(name: str) -> dict[str, str]:
        return {"key": f"{name}-{t}"} if keyed else {}

    now = float(t)
    X = player.ask(now, 3 if t % 5 == 0 else None, **key("ask"))
    said(f"ask-{t}")
    player.tell(X[:2], reward(X[:2], now), now, **key("tell"))
    said(f"tell-{t}")
    if len(X) > 2:
        player.drop(X[2:], **key("drop"))
        said(f"drop-{t}")
    if t % 3 == 0:
        about = SITES.X[[t % 21]]
        player.answer(about, np.cos(about[:, 0]), now, 0.04, **key("answer"))
        said(f"answer-{t}")
    if keyed and t % 4 == 0:
        player.snapshot()


def play(place: str, folder: Path, number: int) -> None:
    """What a writer does: step after step, until the file `stop` says which was the last."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    log = os.open(folder / f"done-{number}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def said(key: str) -> None:
        os.write(log, f"{key}\n".encode())

    t, campaign = 1, None
    while True:
        try:
            if campaign is None:
                campaign = opened(place, folder)
                t = max(t, len({*campaign.state.rewards.t.tolist()}))
            stop = folder / "stop"
            if stop.exists() and t > int(stop.read_text() or t):  # it may just be being written
                return
            step(campaign, t, said, keyed=True)
            t += 1
        except (StorageError, BusyError):
            time.sleep(0.05)  # a server that is away, a disk that is full
            campaign = None


def opened(place: str, folder: Path) -> Campaign:
    """The campaign, with its expert."""
    expert = Shop(folder / "ledger.jsonl")
    return Campaign.open(place, expert=expert, snapshot_every=SNAPSHOT_EVERY, timeout=60.0)


def check(place: str, folder: Path, steps: int, found: Count, acknowledged: bool = True) -> None:
    """Compare a campaign at its end with its ledger, its reports and its twin."""
    with opened(place, folder) as campaign:
        faults = [f"verify: {problem}" for problem in campaign.verify().problems]
        journal = campaign.journal()
        keys = Counter(row.key for row in journal if row.key is not None)
        faults += [f"{key} counts {n} times" for key, n in keys.items() if n > 1]
        if acknowledged:
            logs = [path.read_text().split("\n")[:-1] for path in folder.glob("done-*.log")]
            lost = sorted({key for log in logs for key in log} - set(keys))
            faults += [f"{key} was reported as done and is not on record" for key in lost]
        bought = Counter(
            (x, row.body["t"]) for row in journal if row.kind == "reply" for (x,) in row.body["X"]
        )
        ledger = sales(folder / "ledger.jsonl")
        sold = {(x, t) for kind, x, t in ledger if kind == "sale"}
        faults += [f"{each} was sold and is not on record" for each in sorted(sold - set(bought))]
        faults += [f"{each} was bought twice" for each, n in bought.items() if n > 1]
        for name, times in (("steps", steps), ("rows", len(journal)), ("sold", len(sold))):
            found.also[name] += times
        faults += differences(campaign, steps)
    if faults:
        raise Found(WRONG, "; ".join(faults[:9]))


def differences(campaign: Campaign, steps: int) -> list[str]:
    """What is not the same as in a bandit that nobody disturbed."""
    with tempfile.TemporaryDirectory() as apart:
        twin = begun(Path(apart))
        for t in range(1, steps + 1):
            step(twin, t, lambda _: None, keyed=False)
        found = unlike(campaign.state, twin.state)
        X, Y = (each.predict(SITES.X, steps + 1.0) for each in (campaign, twin))
        if not all(map(np.array_equal, X, Y)):
            found.append("predictions are not those of the twin")
    return found


def unlike(one: Any, two: Any) -> list[str]:
    """Parts of a state that are not those of its twin, but for what people are told."""
    return [
        f"{name} is not that of the twin"
        for name in vars(two)
        if name not in ("info", "expert")
        and not is_same_value(getattr(one, name), getattr(two, name))
    ]


def kill_often(
    found: Count, place: str, folder: Path, kills: int, rng: random.Random, server: Server | None
) -> None:
    """Play with several writers, and kill one after the other."""
    Campaign.create(place, begun(folder), snapshot_every=SNAPSHOT_EVERY).close()
    fork = multiprocessing.get_context("fork")

    def start(number: int) -> Any:
        child = fork.Process(target=play, args=(place, folder, number), daemon=True)
        child.start()
        return child

    children = {number: start(number) for number in range(WRITERS)}
    for kill in range(kills):
        time.sleep(rng.uniform(0.0, 0.3))
        if server is not None and kill % 4 == 3:
            server.kill()
            found.also["kills of a server"] += 1
            server.start()
        else:
            number = rng.randrange(WRITERS)
            child = children[number]
            if not child.is_alive():
                raise Found(WRONG, f"a writer ended by itself, with status {child.exitcode}")
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            children[number] = start(number)
        found.also[f"kills soon after {last_kind(place)}"] += 1
    check(place, folder, finish(place, folder, list(children.values())), found)


def last_kind(place: str) -> str:
    """The kind of the last row of a journal: where the last kill fell, or soon after it."""
    with Campaign.open(place) as campaign:
        journal = campaign.journal()
    return journal[-1].kind if journal else "nothing yet"


def finish(place: str, folder: Path, children: Sequence[Any]) -> int:
    """Let the writers play a few steps more to a common end; how many there are."""
    with Campaign.open(place) as campaign:
        steps = 6 + max([0, *(int(t) for t in campaign.history["time"])])
    (folder / "stop").write_text(str(steps))
    for child in children:
        child.join(120)
        if child.exitcode != 0:
            child.kill()
            raise Found(WRONG, f"a writer ended with status {child.exitcode}")
    return steps


def starve(found: Count, folder: Path, times: int, rng: random.Random) -> None:
    """Play while files may grow by a few kB only, again and again."""
    place = str(folder / "campaign.db")
    Campaign.create(place, begun(folder), snapshot_every=SNAPSHOT_EVERY).close()
    t, full, soft = 1, 0, resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    campaign = opened(place, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no room for a snapshot
        while full < times:
            largest = max(path.stat().st_size for path in folder.iterdir())
            room = largest + rng.randrange(1, 300_000)
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, soft[1]))
            try:
                for _ in range(30):
                    step(campaign, t, lambda _: None, keyed=True)
                    t += 1
            except StorageError:
                full += 1
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, soft)
            if rng.random() < 0.3:
                campaign.close()
                campaign = opened(place, folder)
        step(campaign, t, lambda _: None, keyed=True)
    campaign.close()
    found.also["times that the disk was full"] += full
    check(place, folder, t, found)


def cut(found: Count, folder: Path, times: int, rng: random.Random) -> None:
    """Cut the write-ahead log of a campaign at random places, as a loss of power may, and go on."""
    place = folder / "campaign.db"
    Campaign.create(place, begun(folder), snapshot_every=SNAPSHOT_EVERY).close()
    with closing(opened(str(place), folder)) as campaign:
        for t in range(1, 13):
            step(campaign, t, lambda _: None, keyed=True)
        whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    log = whole["campaign.db-wal"]
    for number in range(times):
        anywhere, page = rng.randrange(len(log)), 32 + 4120 * rng.randrange(len(log) // 4120)
        whole["campaign.db-wal"] = log[: anywhere if number % 2 else page]
        apart = folder / f"cut-{number}"
        apart.mkdir()
        for name in ("campaign.db", "campaign.db-wal", "ledger.jsonl"):
            (apart / name).write_bytes(whole[name])
        found.also["logs that were cut"] += 1
        with opened(str(apart / "campaign.db"), apart) as again:
            for t in range(1, 15):  # clients try again what they had no reply to, and go on
                step(again, t, lambda _: None, keyed=True)
        check(str(apart / "campaign.db"), apart, 14, found, acknowledged=False)
        shutil.rmtree(apart)


def still(folder: Path) -> str:
    """Read from, and try to write to, a disk that cannot be written; needs the rights to mount one."""
    place = folder / "disk" / "campaign.db"
    place.parent.mkdir()
    mount = f"mount -t tmpfs -o size=4m tmpfs {place.parent} 2>/dev/null"
    if os.geteuid() != 0 or os.system(mount):
        return "not tried: no right to mount a disk"
    try:
        Campaign.create(place, begun(folder)).close()
        with opened(str(place), folder) as campaign:
            for t in range(1, 6):
                step(campaign, t, lambda _: None, keyed=True)
            X = campaign.predict(SITES.X, 7.0)
        os.system(f"mount -o remount,ro {place.parent}")
        with opened(str(place), folder) as campaign:
            same = all(map(np.array_equal, X, campaign.predict(SITES.X, 7.0)))
            if not (same and campaign.verify().consistent):
                raise Found(WRONG, "a campaign on a disk that cannot be written was not read")
            try:
                campaign.ask(6.0)
            except StorageError:
                return "a disk that cannot be written is read, and no more"
            raise Found(WRONG, "a disk that cannot be written was written")
    finally:
        os.system(f"umount {place.parent}")


def on_a_server(found: Count, folder: Path, kills: int, rng: random.Random) -> None:
    """Kill writers and their PostgreSQL server."""
    with Server(folder) as server:
        kill_often(found, server.url, folder, kills, rng, server)


@in_the_loop(100, 4)
def attack(found: Count, count: int, seed: int) -> Iterator[Trial]:
    """Kill writers so many times, and starve and cut as many as belong to that."""
    rng, times = random.Random(seed), max(4, count // 5)
    with tempfile.TemporaryDirectory(prefix="attack") as temporary:
        apart = [Path(temporary, name) for name in ("killed", "full", "cut", "still", "server")]
        for each in apart:
            each.mkdir()
        killed, full, cuts, there, server = apart
        place = str(killed / "campaign.db")
        yield "kills", partial(kill_often, found, place, killed, count, rng, None)
        yield "full disk", partial(starve, found, full, times, rng)
        yield "loss of power", partial(cut, found, cuts, times, rng)
        yield "disk that cannot be written", partial(still, there)
        if why_not() is None:
            yield "kills of a server", partial(on_a_server, found, server, max(4, count // 2), rng)
