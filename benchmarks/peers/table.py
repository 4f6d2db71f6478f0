"""The peers' table again, out of kept runs: `python -m benchmarks.peers.table DIR HORIZON`."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.peers.__main__ import Kept, table_of


def main() -> None:
    out, horizon = Path(sys.argv[1]), int(sys.argv[2])
    table = table_of(Kept(out).runs, horizon)
    table.to_csv(out / "peers.csv", index=False, float_format="%.4g")
    print("| problem | policy | version | whole runs | average regret | ms a step | failures |")
    print("|---|---|---|---:|---:|---:|---|")
    for line in table.fillna("").to_dict(orient="records"):
        cells = [
            f"{value:.3g}" if isinstance(value, float) else str(value)
            for name, value in line.items()
            if name not in ("runs", "smallest", "largest")
        ]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
