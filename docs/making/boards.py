"""Rank the boards in `benchmarks/results` again: `python -m docs.making.boards`.

It drops the rows of policies that the package no longer has, and makes tables, pictures and texts again
from the other rows, without playing any run.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pandas as pd
from matplotlib import style

from docs.making.pictures import DARK
from tvbandits.comparison.board import Board, board_text, write_ranks
from tvbandits.policies import POLICIES

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def read_rows(path: Path) -> pd.DataFrame:
    """Return the rows of a csv file whose policies exist in the package."""
    rows = pd.read_csv(path, keep_default_na=False, na_values=[""])
    return rows[rows["policy"].str.partition(":")[0].isin(POLICIES)]


def rank_again(folder: Path, pictures: Path) -> None:
    """Write the tables of a board again into its folder, and its pictures into another one."""
    summary, differences = read_rows(folder / "summary.csv"), read_rows(folder / "paired.csv")
    summary.to_csv(folder / "summary.csv", index=False)
    differences.to_csv(folder / "paired.csv", index=False)
    table = summary.pivot(index="problem", columns="policy", values="average_regret")
    table = table.loc[summary["problem"].unique(), summary["policy"].unique()]
    write_ranks(table, pictures)
    (pictures / "dark").mkdir()
    with style.context(DARK):
        write_ranks(table, pictures / "dark")
    shutil.copyfile(pictures / "ranks.csv", folder / "ranks.csv")
    origin = json.loads((folder / "made.json").read_text())
    (folder / "board.md").write_text(board_text(Board(summary, table, summary), origin))


def main() -> None:
    """Rank all boards, and copy the pictures of the two boards that the pages show."""
    for summary in sorted(RESULTS.glob("*/summary.csv")):
        folder = summary.parent
        with tempfile.TemporaryDirectory() as name:
            pictures = Path(name)
            rank_again(folder, pictures)
            for picture in ("ranks.png", "profile.png"):
                if folder.name == "quick":
                    shutil.copyfile(pictures / picture, folder / picture)
                elif folder.name == "paper":
                    light = f"leaderboard-{picture}"
                    dark = light.replace(".png", "-dark.png")
                    shutil.copyfile(pictures / picture, ROOT / "docs" / light)
                    shutil.copyfile(pictures / "dark" / picture, ROOT / "docs" / dark)


if __name__ == "__main__":
    main()
