"""Time the package beside peers and plain forms, and print tables: `python -m benchmarks`."""

from __future__ import annotations

from collections.abc import Callable

from threadpoolctl import threadpool_limits

from benchmarks import chain, dpp, plain, step
from benchmarks.harness import heading, machine, make_parser

# Functions of a number of repeats, which print rows.
TIMED: dict[str, Callable[[int], None]] = {"dpp": dpp.rows, "step": step.rows, "plain": plain.rows}
COLUMNS = "benchmark", "case", "ours (ms)", "peer (ms)", "peer / ours", "range", "note"


def main() -> None:
    """Print the tables that the arguments name."""
    parser = make_parser(__doc__, repeats=3)
    parser.add_argument("--only", choices=[*TIMED, "chain"], help="one table")
    options = parser.parse_args()
    with threadpool_limits(limits=1):
        if options.only == "chain":
            chain.table(options.repeats)
            return
        print(machine(), end="\n\n")
        heading(*COLUMNS)
        for name in [options.only] if options.only else TIMED:
            TIMED[name](options.repeats)


if __name__ == "__main__":
    main()
