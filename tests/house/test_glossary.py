"""Every word in capitals that the pages use, and everybody does not know, is in the glossary."""

from __future__ import annotations

import re

from tests.house.test_documents import FENCED, PAGES
from tests.places import ROOT

KNOWN = {"CPU", "CSV", "GB", "GPU", "HTML", "HTTP", "ID", "JSON", "KB", "MB", "MIT", "OK", "README"}
KNOWN |= {"SECURITY", "SIGKILL", "SIGTERM", "SQL", "TOML", "URL", "UTC", "UTF-8"}
"""What everybody knows who reads documentation of software."""

WORD = re.compile(r"\b[A-Z][A-Z0-9]+(?:-[A-Z0-9]+)*\b")
NOT_TEXT = re.compile(r"`[^`]*`|\[[A-Z][A-Za-z]*\]|\]\([^)]*\)|\$[^$]*\$|<!--.*?-->", re.DOTALL)
"""Code, keys of papers, links, equations and comments."""


def test_the_glossary_has_every_acronym() -> None:
    glossary = set(WORD.findall((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")))
    missing = {}
    for path in PAGES:
        if path.name != "references.md":  # names of journals and conferences
            text = FENCED.sub("", path.read_text(encoding="utf-8"))
            words = set(WORD.findall(NOT_TEXT.sub(" ", text))) - KNOWN - glossary
            missing |= dict.fromkeys(words, path.name)
    assert not missing, missing
