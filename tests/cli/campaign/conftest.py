"""A campaign on the command line: `tvbandits campaign`, in a folder with a campaign at sites."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import Command, check_success, commands
from tests.helpers.folders import fill_once

SITES = "site,km\nA,0\nB,2\nC,4\nD,6\n"

CONFIG = """
[domain]
sites = "sites.csv"
{context}
[policy]
name = "tv-gp-ucb"
length_scale = 2.0
noise_sd = 0.1
[policy.options]
forgetting_rate = 0.01
"""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`tvbandits campaign ...`."""
    return commands(monkeypatch, capsys, "campaign")


@pytest.fixture
def place(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any) -> Path:
    """A campaign at four sites; the parameter of a test is added to its section [domain]."""
    monkeypatch.chdir(tmp_path)
    config = CONFIG.format(context=getattr(request, "param", ""))

    def new() -> None:
        (tmp_path / "sites.csv").write_text(SITES)
        (tmp_path / "c.toml").write_text(config)
        check_success(command("new", "c.db", "--config", "c.toml"))

    fill_once(config, tmp_path, new)
    return tmp_path / "c.db"
