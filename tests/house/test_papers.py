"""The page of what each paper says: lines of algorithms have a row, and rows a place that exists."""

import importlib
import pkgutil
import re

import pytest

from tests.places import ROOT

PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
NAME = re.compile(r"`(tvbandits(?:\.\w+)+)`")
LINKED = re.compile(r"\[`(tvbandits(?:\.\w+)+)`\]\((reference/[\w-]+\.md)\)")
PATH = re.compile(r"`((?:\w+/)+\w+\.py)`")
LINK = re.compile(r"\]\(([\w-]+\.md)(?:#([\w-]+))?\)")
DESCRIBED = re.compile(r"::: (\S+)(?:\n    options:\n +members: \[([^]]*)\])?")


def rows_of(paper: str) -> list[list[str]]:
    """Cells of the rows below a heading, without those of the heading."""
    (section,) = re.findall(rf"^## [^\n]*{re.escape(paper)}$(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


PAPERS = ["SparQ-GP-UCB [S]", "BKB [B]", "BBKB [BB]"]
ROWS = [(paper, row) for paper in PAPERS for row in rows_of(paper)]


def described_on(page: str) -> set[str]:
    """Names that a page of the reference describes, each by where the package offers it."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    names = set()
    for module, members in DESCRIBED.findall(text):
        offered = re.findall(r"\w+", members) or importlib.import_module(module).__all__
        names |= {f"{module}.{name}" for name in offered}
    return names


def anchors(page: str) -> set[str]:
    """Anchors of a page's headings."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\s-]", "", title).strip().lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize(("paper", "row"), ROWS, ids=[f"{p}: {r[0]}" for p, r in ROWS])
def test_row_of_a_paper_has_a_place_or_says_that_there_is_none(paper: str, row: list[str]) -> None:
    assert len(row) == 3, paper
    place = row[2]
    found = NAME.findall(place) + PATH.findall(place) + LINK.findall(place)
    assert found or place.startswith(("**Differs:**", "not here"))
    for name in NAME.findall(place):
        assert pkgutil.resolve_name(name) is not None
    for path in PATH.findall(place):
        assert (ROOT / path).is_file(), path


@pytest.mark.parametrize("page", sorted({page for _, page in LINKED.findall(PAGE)}))
def test_linked_page_of_the_reference_describes_the_names(page: str) -> None:
    linked = {name for name, where in LINKED.findall(PAGE) if where == page}
    described = described_on(page)
    assert {name for name in linked if not described & {name, name.rpartition(".")[0]}} == set()


def test_links_to_sections_lead_to_headings() -> None:
    for page, anchor in LINK.findall(PAGE):
        assert not anchor or anchor in anchors(page), f"{page}#{anchor}"


LINES = {
    "SparQ-GP-UCB [S]": {"Algorithm 1": range(3, 9), "Algorithm 2": (3, 5, 6, 7, 8)},
    "BBKB [BB]": {"Algorithm 1": (1, 2, 4, 5, 7, 8, 11, 12, 13, 14, 15, 17, 18)},
}


@pytest.mark.parametrize("paper", LINES)
def test_every_line_of_an_algorithm_that_does_something_has_a_row(paper: str) -> None:
    for algorithm, lines in LINES[paper].items():
        keys = [row[0].partition(";")[0] for row in rows_of(paper) if algorithm in row[0]]
        covered: set[int] = set()
        for key in keys:
            numbers = [int(each) for each in re.findall(r"\d+", key.removeprefix(algorithm))]
            if numbers:
                covered |= {*range(numbers[0], numbers[-1] + 1)}
        assert covered >= {*lines}


def test_page_names_the_oracles_that_exist() -> None:
    introduction = PAGE.partition("\n## ")[0]
    paths = PATH.findall(introduction)
    assert len(paths) == 4
    assert all((ROOT / path).is_file() for path in paths)
