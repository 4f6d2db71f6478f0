"""Where things are."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
DATA = ROOT.parent / "shared" / "data"
"""Real measurements, where they lie beside the checkout."""
