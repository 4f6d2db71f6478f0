"""A PostgreSQL server of one's own on loopback, which can be killed and started again."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

VERSIONS = Path("/usr/lib/postgresql")


def programs() -> Path | None:
    """The folder of the server's programs, the latest version first; None where there is none."""
    found = sorted(VERSIONS.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    there = shutil.which("initdb")
    return None if there is None else Path(there).resolve().parent


def why_not() -> str | None:
    """Why there can be no server here; None where there can."""
    if programs() is None:
        return "there is no PostgreSQL server here (postgresql)"
    if os.geteuid() == 0 and _somebody() is None:
        return "a PostgreSQL server does not run as root, and there is no user postgres or nobody"
    return None


def _somebody() -> str | None:
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    return None


class Server:
    """A server with an empty database; a context manager.

    Parameters
    ----------
    near : Path
        Named in messages only: the files lie where the server's user may write.
    """

    def __init__(self, near: Path) -> None:
        self._near = near
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]

    @property
    def url(self) -> str:
        """Where it is."""
        return f"postgresql://tester@127.0.0.1:{self.port}/campaigns"

    def __enter__(self) -> Server:
        where = programs()
        if where is None:
            raise RuntimeError(f"{self._near}: {why_not()}")
        self._programs = where
        self._folder = Path(tempfile.mkdtemp(prefix="server-"))
        if os.geteuid() == 0:
            shutil.chown(self._folder, _somebody())
        self._data = self._folder / "data"
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", "tester")
        self.start()
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "tester", "campaigns")
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(subprocess.CalledProcessError):
            self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1"
        for _ in range(50):
            # After a kill, the processes of the old server take a moment to end.
            with suppress(subprocess.CalledProcessError):
                self._run(
                    "pg_ctl", "-D", str(self._data), "-l", str(self._folder / "log"), "-o", options,
                    "-w", "start",
                )  # fmt: skip
                return
            time.sleep(0.2)
        raise RuntimeError((self._folder / "log").read_text()[-2000:])

    def kill(self) -> None:
        """Kill its first process by SIGKILL, as nothing else can."""
        os.kill(int((self._data / "postmaster.pid").read_text().split("\n")[0]), signal.SIGKILL)
        time.sleep(0.1)

    def _run(self, program: str, *arguments: str) -> None:
        user: dict[str, Any] = {"user": _somebody()} if os.geteuid() == 0 else {}
        subprocess.run(
            [str(self._programs / program), *arguments],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            **user,
        )
