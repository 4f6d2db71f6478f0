"""Where things are."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
# Real measurements, where they lie beside the checkout.
DATA = ROOT.parent / "shared" / "data"
