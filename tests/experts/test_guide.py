"""The guide to experts: its code runs as it stands, and prints what the guide says."""

from __future__ import annotations

import re
import sys
import types

import pytest

from tests.places import ROOT

GUIDE = ROOT / "docs" / "your-own-expert.md"


def test_the_guide_runs_and_prints_what_it_says(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```(\w+)\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert sum(kind == "python" for kind, _ in blocks) >= 7
    guide = types.ModuleType("guide")  # a module, so that its classes can be pickled
    monkeypatch.setitem(sys.modules, "guide", guide)
    printed = ""
    for kind, text in blocks:
        if kind == "python":
            assert printed == "", "output that the guide does not show"
            exec(compile(text, str(GUIDE), "exec"), vars(guide))
            printed = capsys.readouterr().out
        else:
            assert (kind, printed) == ("text", text)
            printed = ""
    assert printed == ""
