"""Files of tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvbandits.campaign.service import Tokens


def test_a_file_of_tokens_holds_no_token(tmp_path: Path) -> None:
    place = tmp_path / "t.json"
    token = Tokens.at(place).new("anna", ["read"])
    assert token not in place.read_text()
    assert place.stat().st_mode & 0o077 == 0
    found = Tokens.at(place).holder(token)
    assert found is not None
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
    with pytest.raises(ValueError, match=error):
        tokens.new(name, roles)
    assert tokens.names == ("anna",)


@pytest.mark.parametrize("text", ["", "[]", '{"tokens": [{"name": "a"}]}', '{"tokens": 3}', "\x00"])
def test_a_damaged_file_of_tokens(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(ValueError, match="is not a file of tokens"):
        Tokens.at(tmp_path / "t.json")
