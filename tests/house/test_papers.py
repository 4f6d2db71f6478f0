"""The papers page: lines of algorithms have a row, and rows name existing code."""

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
    """Names that a page of the reference describes, with their public modules."""
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
def test_row_of_the_papers_page_names_existing_code_or_states_a_difference(
    paper: str, row: list[str]
) -> None:
    assert len(row) == 3, paper
    place = row[2]
    found = NAME.findall(place) + PATH.findall(place) + LINK.findall(place)
    assert found or place.startswith(("**Differs:**", "not here"))
    for name in NAME.findall(place):
        assert pkgutil.resolve_name(name) is not None
    for path in PATH.findall(place):
        assert (ROOT / path).is_file(), path


@pytest.mark.parametrize("page", sorted({page for _, page in LINKED.findall(PAGE)}))
def test_reference_page_describes_the_names_with_links_to_it(page: str) -> None:
    linked = {name for name, where in LINKED.findall(PAGE) if where == page}
    described = described_on(page)
    assert {name for name in linked if not described & {name, name.rpartition(".")[0]}} == set()


def test_papers_page_links_only_to_existing_headings() -> None:
    for page, anchor in LINK.findall(PAGE):
        assert not anchor or anchor in anchors(page), f"{page}#{anchor}"


LINES = {
    "SparQ-GP-UCB [S]": {"Algorithm 1": range(3, 9), "Algorithm 2": (3, 5, 6, 7, 8)},
    "BBKB [BB]": {"Algorithm 1": (1, 2, 4, 5, 7, 8, 11, 12, 13, 14, 15, 17, 18)},
}


@pytest.mark.parametrize("paper", LINES)
def test_papers_page_has_a_row_for_every_line_of_an_algorithm(paper: str) -> None:
    for algorithm, lines in LINES[paper].items():
        keys = [row[0].partition(";")[0] for row in rows_of(paper) if algorithm in row[0]]
        covered: set[int] = set()
        for key in keys:
            numbers = [int(each) for each in re.findall(r"\d+", key.removeprefix(algorithm))]
            if numbers:
                covered |= {*range(numbers[0], numbers[-1] + 1)}
        assert covered >= {*lines}


def test_papers_page_names_four_existing_oracles() -> None:
    introduction = PAGE.partition("\n## ")[0]
    paths = PATH.findall(introduction)
    assert len(paths) == 4
    assert all((ROOT / path).is_file() for path in paths)
