"""The wheel that the page `in-the-browser.md` installs: built from this tree, kept in the site."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the wheel, and a file that names it."""
    with tempfile.TemporaryDirectory() as folder:
        make = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder]
        subprocess.run([*make, str(ROOT)], check=True, capture_output=True)
        (wheel,) = Path(folder).glob("*.whl")
        files.append(File.generated(config, f"wheels/{wheel.name}", content=wheel.read_bytes()))
    made = json.dumps({"wheel": wheel.name})
    files.append(File.generated(config, "wheels/made.json", content=made))
    return files
