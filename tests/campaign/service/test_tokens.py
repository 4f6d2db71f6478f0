"""Files of tokens."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.refusals import refused
from tvbandits.campaign.service import Tokens


def test_a_file_of_tokens_holds_no_token(tmp_path: Path) -> None:
    place = tmp_path / "t.json"
    token = Tokens.at(place).new("anna", ["read"])
    assert token not in place.read_text()
    assert place.stat().st_mode & 0o077 == 0
    found = Tokens.at(place).holder(token)
    assert (found.name, found.roles) == ("anna", {"read"})
    assert Tokens.at(place).holder(token[:-1]) is None
    assert token not in repr(Tokens.at(place))


@pytest.mark.parametrize(
    ("name", "roles", "error"),
    [
        ("anna", ["read"], "has a token already"),
        ("a b", ["read"], "name must be letters"),
        ("", ["read"], "name must be letters"),
        ("bert", ["root"], "roles must be of read, tell, ask; got .'root'"),
        ("bert", [], "roles must be of"),
    ],
)
def test_bad_tokens(tmp_path: Path, name: str, roles: list[str], error: str) -> None:
    tokens = Tokens.at(tmp_path / "t.json")
    tokens.new("anna", ["read"])
    refused(ValueError, error, tokens.new, name, roles)
    assert tokens.names == ("anna",)


@pytest.mark.parametrize("text", ["[]", '{"tokens": [{"name": "a"}]}', '{"tokens": 3}', "\x00"])
def test_a_damaged_file_of_tokens(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    refused(ValueError, "is not a file of tokens", Tokens.at, tmp_path / "t.json")
    refused(ValueError, f"{tmp_path}: Is a directory", Tokens.at, tmp_path)
    refused(ValueError, "tokens must be the path of a file", Tokens.at, "9" * 300)


def test_who_read_the_file_before_loses_nothing_of_what_others_wrote(tmp_path: Path) -> None:
    place = tmp_path / "t.json"
    one, other = Tokens.at(place), Tokens.at(place)
    anna = one.new("anna", ["read"])
    bert = other.new("bert", ["read"])
    assert Tokens.at(place).names == ("anna", "bert")
    refused(ValueError, '"bert" has a token already', one.new, "bert", ["read"])
    other.take_back("anna")
    one.new("carl", ["read"])
    assert Tokens.at(place).names == ("bert", "carl")
    assert Tokens.at(place).holder(anna) is None
    assert Tokens.at(place).holder(bert) is not None


WRITES = """
import sys
from tvbandits.campaign.service.tokens import Tokens
place, name = sys.argv[1:]
sys.stdin.readline()
for i in range(20):
    Tokens.at(place).new(f"{name}{i}", ["read"])
    if i % 2:
        Tokens.at(place).take_back(f"{name}{i}")
"""


@pytest.mark.slow
def test_processes_that_write_at_once_take_turns(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITES, str(tmp_path / "t.json")]
    running = [subprocess.Popen([*command, name], stdin=subprocess.PIPE) for name in "abc"]
    for each in running:
        each.stdin.write(b"now\n")
        each.stdin.flush()
    assert [each.wait(120) for each in running] == [0, 0, 0]
    for each in running:
        each.stdin.close()
    expected = {f"{name}{i}" for name in "abc" for i in range(0, 20, 2)}
    assert set(Tokens.at(tmp_path / "t.json").names) == expected
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]
