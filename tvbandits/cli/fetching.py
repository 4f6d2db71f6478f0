"""What the command `data fetch` does."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tvbandits.datasets.epa_ozone.fetch import AIRDATA_URL, fetch_ozone


def fetch(years: Sequence[int], cache: str | None, base_url: str | None) -> None:
    """Download ozone, and say how to use it."""
    paths = fetch_ozone(years, cache=cache, base_url=base_url or AIRDATA_URL)
    for path in paths:
        print(path)
    data = " ".join(f"--data {shlex.quote(str(path))}" for path in paths)
    # The whole country has more than a thousand sites.
    print(f"tvbandits compare ozone:sites=28 {data}")
