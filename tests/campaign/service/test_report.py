"""The page of a campaign: its text, and its behaviour in a browser."""

import hashlib
import json
import re
from base64 import b64encode
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.browser import open_page
from tests.helpers.silent import SilentExpert
from tvbandits import Box, Campaign, Candidates, Clock, policies
from tvbandits.campaign.service.page import MOST_DOTS, campaign_page
from tvbandits.campaign.service.pictures import dots

pytest.importorskip("jinja2", reason="no jinja2: no page")

SITES = Candidates(np.random.default_rng(0).uniform(0, 10, (12, 2)))
HOSTILE = "</script><b>Z<img src=x onerror=alert(1)>"
NAMES = [f"Station {chr(65 + i)}" for i in range(11)] + [HOSTILE]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign at sites with a clock, answers, a station that is stuck and one that is silent."""
    folder = tmp_path_factory.mktemp("network")
    about = {"names": json.dumps(NAMES), "title": "Ozone <network>", "unit": "ppb"}
    about["coordinates"] = json.dumps(["km <b>east", "km north"])
    bandit = policies.frugal_gp_ucb(
        SITES, kernel=RBF(3.0), noise_variance=0.04, expert=SilentExpert(), queries_per_step=2
    )
    clock = Clock("1D", "2024-05-01")
    with Campaign.create(folder / "c.db", bandit, clock=clock, about=about) as campaign:
        for t in range(1, 9):
            X = campaign.ask(float(t))
            campaign.tell(X, np.sin(X[:, 0] / 3 + t / 2), float(t))
            campaign.answer(SITES.X[[t % 12]], [np.sin(SITES.X[t % 12, 0] / 3)], float(t), 0.04)
        for t in range(9, 15):
            campaign.tell(SITES.X[[3]], [np.nan], float(t))
            campaign.tell(SITES.X[[5]], [0.5], float(t))
        campaign.ask(15.0, n=4)
        (folder / "page.html").write_text(campaign_page(campaign), encoding="utf-8")
    return folder / "page.html"


def test_page_shows_problems_times_and_escaped_names(network: Path) -> None:
    text = re.sub(r"<script.*?</script>", "", network.read_text(), flags=re.DOTALL)
    text = re.sub(r' (?:data-label|class)=".*?"', "", text)
    assert "<h1>Ozone &lt;network&gt;</h1>" in text
    assert "Go to " in text
    assert "stations with problems<b>2</b>" in text
    assert "<td>Station D</td><td>silent: the last 6 readings failed</td>" in text
    assert "<td>Station F</td><td>stuck: the last 6 readings are all 0.5</td>" in text
    assert "As of 2024-05-16" in text
    ahead = re.search(r"<h2>Forecast.*?</thead>", text, flags=re.DOTALL)[0]  # type: ignore[index]
    assert re.findall(r"2024-05-\d\d", ahead) == [f"2024-05-{day}" for day in (16, 17, 18, 19, 21)]
    for odd in ("<b>Z", "<img", "<b>east"):
        assert odd not in network.read_text()
    assert not re.findall(r'(?:src|href)="(?!#)', text)


def test_page_security_policy_allows_only_its_own_scripts(network: Path) -> None:
    text = network.read_text()
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', text, flags=re.DOTALL)
    rules = dict(each.split(None, 1) for each in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["form-action"] == rules["base-uri"] == "'none'"
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digests = [b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts]
    assert rules["script-src"].split() == [f"'sha256-{each}'" for each in digests]
    assert len(scripts) == 1


def test_page_of_many_sites_and_readings_is_below_a_megabyte(tmp_path: Path) -> None:
    X, rng = np.random.default_rng(0).uniform(0, 100, (510, 2)), np.random.default_rng(1)
    bandit = policies.sw_gp_ucb(Candidates(X), kernel=RBF(9.0), noise_variance=0.1, window=50)
    with Campaign.create(tmp_path / "c.db", bandit) as campaign:
        campaign.tell(X, rng.standard_normal(len(X)), np.ones(len(X)))
        text = campaign_page(campaign)
    assert "10 more are not shown" in text
    shares = np.round(rng.uniform(0, 100, (2, MOST_DOTS)), 2)
    assert len(text.encode()) + len(dots("reading", *shares)) < 1_000_000


@pytest.mark.slow
def test_page_does_not_run_an_injected_script(network: Path, tmp_path: Path) -> None:
    evil = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"
    page = tmp_path / "page.html"
    page.write_text(network.read_text().replace("<h1>", f"{evil}<h1>"))
    with open_page(page.as_uri()) as looked:
        assert looked.page.title() == "Ozone <network>"
        assert any("Content Security Policy" in each for each in looked.complaints)


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_page_map_shows_no_overlapping_labels(tmp_path: Path, width: int) -> None:
    X = np.random.default_rng(3).uniform(0, 10, (25, 2))
    X[1:8] = X[0] + np.random.default_rng(4).uniform(-0.4, 0.4, (7, 2))
    about = {"names": json.dumps([f"A station of some name {i}" for i in range(25)])}
    bandit = policies.tv_gp_ucb(
        Candidates(X), kernel=RBF(3.0), noise_variance=0.04, forgetting_rate=0.01
    )
    with Campaign.create(tmp_path / "c.db", bandit, about=about) as campaign:
        campaign.tell(X, np.sin(X[:, 0]), 1.0)
        campaign.ask(2.0, n=8)
        (tmp_path / "page.html").write_text(campaign_page(campaign), encoding="utf-8")
        out = len(campaign.pending)
    with open_page((tmp_path / "page.html").as_uri(), width) as looked:
        boxes = looked.page.evaluate(
            """[...document.querySelectorAll("#map .label")].map(each => [
                getComputedStyle(each).visibility,
                ...Object.values(each.getBoundingClientRect().toJSON())
            ])"""
        )
        assert len(boxes) >= out
        shown = [each[1:5] for each in boxes if each[0] == "visible"]  # x, y, width, height
        assert 1 <= len(shown) < len(boxes)
        for i, (x, y, w, h) in enumerate(shown):
            assert 0 <= x <= x + w <= width
            for x2, y2, w2, h2 in shown[:i]:
                assert x >= x2 + w2 or x2 >= x + w or y >= y2 + h2 or y2 >= y + h


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_page_shows_whole_cells_of_forecasts_and_stations(
    network: Path, width: int, dark: bool
) -> None:
    with open_page(network.as_uri(), width, dark=dark) as looked:
        boxes = looked.page.evaluate(
            """[...document.querySelectorAll("section")].filter(
                each => /Forecast|Stations/.test(each.querySelector("h2").textContent)
            ).flatMap(each => [...each.querySelectorAll("td, .scroll")]).map(each =>
                [each.getBoundingClientRect().left, each.getBoundingClientRect().right,
                 each.scrollWidth - each.clientWidth])"""
        )
        assert len(boxes) > 30
        for left, right, hidden in boxes:
            assert 0 <= left < right <= width
            assert hidden <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "dark"), [(390, False), (390, True), (1280, False), (1280, True)]
)
def test_page_fits_its_width_is_readable_and_requests_nothing_else(
    network: Path, width: int, dark: bool
) -> None:
    with open_page(network.as_uri(), width, dark=dark) as looked:
        assert looked.fits
        assert looked.complaints == []
        assert looked.requests == [network.as_uri()]
        paper, ink = (
            looked.page.evaluate(f"getComputedStyle(document.body).{name}")
            for name in ("backgroundColor", "color")
        )
        light, dark_ = (sum(map(int, re.findall(r"\d+", each)[:3])) for each in (paper, ink))
        assert (light < dark_) == dark
        assert abs(light - dark_) > 3 * 150  # readable, also in grey


@pytest.mark.slow
def test_page_slider_changes_the_belief_by_keys(network: Path) -> None:
    def drawn() -> object:
        return looked.page.evaluate("document.querySelector('#belief g:not(.hidden)').innerHTML")

    with open_page(network.as_uri(), 390) as looked:
        now, said = drawn(), looked.page.inner_text("#belief-at")
        slider = looked.page.locator("#belief-slider")
        assert slider.get_attribute("aria-valuetext") == said == "2024-05-16"
        slider.focus()
        for key, at in (("Home", "2024-05-02"), ("End", "2024-05-21")):
            looked.page.keyboard.press(key)
            assert looked.page.inner_text("#belief-at") == at
            assert slider.get_attribute("aria-valuetext") == at
            looked.page.wait_for_timeout(300)
            assert drawn() != now
        looked.page.emulate_media(color_scheme="dark")  # the slider stays where it is
        looked.page.wait_for_timeout(300)
        assert looked.page.inner_text("#belief-at") == at
        assert looked.complaints == []


@pytest.mark.slow
def test_page_has_tooltips_labels_and_accessible_tables(network: Path) -> None:
    with open_page(network.as_uri(), 1200) as looked:
        assert "Station" in (looked.page.text_content("#map use title") or "")
        pictures = looked.page.locator(".plot")
        for i in range(pictures.count()):
            assert pictures.nth(i).get_attribute("role") == "img"
            assert len(pictures.nth(i).get_attribute("aria-label") or "") > 10
        # Tables, which can be opened and scrolled by keys, show the data of the pictures.
        for name in ("belief", "history"):
            fold = looked.page.locator(f"figure:has(#{name}) details")
            fold.locator("summary").focus()
            looked.page.keyboard.press("Enter")
            assert fold.locator("tbody tr").count() > 1
            assert fold.locator(".scroll").get_attribute("tabindex") == "0"
        labels = looked.page.locator("input")
        for i in range(labels.count()):
            given = labels.nth(i).get_attribute("id")
            assert looked.page.locator(f"label[for={given}]").count() == 1
        assert looked.page.locator("h1").count() == 1
        assert looked.page.evaluate("document.documentElement.lang") == "en"


@pytest.mark.slow
@pytest.mark.parametrize("played", [False, True])
def test_page_of_a_minimized_box_shows_the_best_guess(tmp_path: Path, played: bool) -> None:
    bandit = policies.tv_gp_ucb(
        Box([[0, 10]]), kernel=RBF(1.5), noise_variance=0.01, forgetting_rate=0.03, minimize=True
    )
    with Campaign.create(tmp_path / "c.db", bandit) as campaign:
        for t in range(1, 6 if played else 1):
            X = campaign.ask(float(t))
            campaign.tell(X, np.cos(X[:, 0]), float(t))
        text = campaign_page(campaign)
        best = campaign.recommend(5.0) if played else None
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    assert "Nothing is pending" in text
    if best is not None:
        shown = float(re.findall(r"Best guess: ([-\d.]+):", text)[0])
        assert shown == pytest.approx(best[0], abs=0.2)
    with open_page((tmp_path / "page.html").as_uri(), 390) as looked:
        assert looked.fits
        assert looked.complaints == []
