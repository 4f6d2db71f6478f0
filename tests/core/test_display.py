"""One line, and a small table that trusts nothing."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given, strategies as st

from tvbandits.core.tables import as_html, as_text


class Reader(HTMLParser):
    """What a browser would see: texts, and the kinds of tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.cells: list[tuple[str, str]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        self.cells.append((tag, ""))
        assert all(name in ("style", "scope") for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        tag, text = self.cells[-1]
        self.cells[-1] = tag, text + data


def test_a_table() -> None:
    reader = Reader(as_html("Bandit", [("rewards", 12), ("width", 2.123456), ("by", "<b>")]))
    assert reader.open == []
    texts = [text for tag, text in reader.cells if tag in ("caption", "th", "td")]
    assert texts == ["Bandit", "rewards", "12", "width", "2.123", "by", "<b>"]


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"))


@given(TEXTS, st.lists(st.tuples(TEXTS, TEXTS | st.floats() | st.integers()), max_size=5))
def test_nothing_is_taken_for_html(title: str, rows: list[tuple[str, object]]) -> None:
    reader = Reader(as_html(title, rows))
    assert reader.open == []
    assert set(reader.tags) <= {"table", "caption", "tbody", "tr", "th", "td"}
    assert reader.tags.count("td") == len(rows)
    names = [text for tag, text in reader.cells if tag == "th"]
    assert names == [name for name, _ in rows]


def test_what_does_not_fit_is_left_out_from_the_end() -> None:
    said = as_text("State", [("a", "x" * 90), ("b", "y" * 90), ("c", "z" * 90)])
    assert said == f"<State: a {'x' * 90}, b {'y' * 90}, ...>"


@given(TEXTS, st.lists(st.tuples(TEXTS, TEXTS | st.floats()), max_size=5))
def test_it_is_one_short_line(title: str, rows: list[tuple[str, object]]) -> None:
    said = as_text(title, rows)
    assert len(said) <= 200
    assert len(said.splitlines()) <= 1
    assert said.startswith("<")
    assert said.endswith(">")
