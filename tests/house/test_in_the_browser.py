"""The page that runs Python in a browser, and the package without modules missing in a browser."""

import functools
import http.server
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.helpers.browser import open_page
from tests.places import ROOT

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "in-the-browser.md").read_text(encoding="utf-8")

STAND_IN = """
export async function loadPyodide() {
  let out = null;
  const installed = [];
  return {
    setStdout({ batched }) { out = batched; },
    loadedPackages: {},
    async loadPackage(names) { for (const name of names) this.loadedPackages[name] = "here"; },
    pyimport: () => ({ install: async (url) => installed.push((await fetch(url)).status) }),
    globals: { get: () => () => ({}) },
    async runPythonAsync(code, where) {
      if (!where) return "";  // what the lines drew
      if (code.includes("wrong")) throw new Error("NameError: wrong");
      out(`installed ${installed}, ran ${code}`);
    },
  };
}
"""

WITHOUT = """
import sys, threading

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"fcntl", "resource", "termios", "pwd", "grp", "sqlalchemy", "dask",
                                  "distributed", "fastapi", "optuna", "pyarrow"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def start(self):
    raise RuntimeError("can't start new thread")

sys.meta_path.insert(0, Missing())
threading.Thread.start = start
"""


@pytest.fixture
def site(tmp_path: Path):
    for name in ("in-the-browser.js", "in-the-browser-worker.js"):
        shutil.copy(ROOT / "docs" / name, tmp_path)
    (tmp_path / "index.html").write_text(f"<!doctype html><meta charset=utf-8>{PAGE}")
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "made.json").write_text('{"wheel": "tvbandits.whl"}')
    (tmp_path / "wheels" / "tvbandits.whl").write_text("a wheel")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def ran(page, code: str) -> str:
    page.fill("#tv-code", code)
    page.click("#tv-run")
    page.wait_for_function("!document.getElementById('tv-run').disabled")
    return page.inner_text("#tv-state") + " " + page.inner_text("#tv-output")


def test_browser_page_installs_the_wheel_runs_code_and_shows_errors(site):
    with open_page(site) as looked:
        looked.page.context.route(
            "**://cdn.jsdelivr.net/**",
            lambda route: route.fulfill(
                body=STAND_IN,
                headers={"content-type": "text/javascript", "access-control-allow-origin": "*"},
            ),
        )
        assert re.match(r"done in [\d.]+ s installed 200, ran 1 \+ 1", ran(looked.page, "1 + 1"))
        assert "NameError: wrong" in ran(looked.page, "wrong")
        assert "ran 2" in ran(looked.page, "2")


def test_browser_page_reports_a_missing_network(site):
    with open_page(site) as looked:
        looked.page.context.route("**://cdn.jsdelivr.net/**", lambda route: route.abort())
        said = ran(looked.page, "1 + 1")
        assert "did not work" in said
        assert "pyodide" in said


def test_code_of_the_browser_page_runs_without_threads_and_optional_packages(tmp_path: Path):
    found = re.search(r"<textarea[^>]*>\n(.*)</textarea>", PAGE, re.DOTALL)
    assert found is not None
    compared = (
        "from tvbandits import compare, datasets\n"
        "rows = compare(datasets.DriftingBump(candidates=21), ['sparq-gp-ucb'], seeds=1, horizon=9)\n"
        "print(len(rows), 'rows')\n"
    )
    script = tmp_path / "script.py"
    script.write_text(WITHOUT + found[1] + compared)
    done = subprocess.run(
        [sys.executable, str(script)],
        env={"PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "9 rows" in done.stdout
