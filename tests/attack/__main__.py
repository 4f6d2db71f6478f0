"""Every attack: `python -m tests.attack [--count N] [--seed N] [--quick] [--only NAME]...`.

A module of this folder with a function `attack(count, seed) -> Count` is found by itself. A table of
counts and examples of what was found are printed; the exit status is 1 if something was.
"""

import argparse
import contextlib
import importlib
import pkgutil
import sys
import traceback
from collections import Counter
from tempfile import TemporaryDirectory
from types import ModuleType

import tests.attack
from tests.attack.report import CRASHED, Count, show


def attacks() -> dict[str, ModuleType]:
    """Every module of this folder that attacks, by its name."""
    names = sorted(each.name for each in pkgutil.iter_modules(tests.attack.__path__))
    modules = {
        name: importlib.import_module(f"tests.attack.{name}")
        for name in names
        if name != "__main__" and not name.startswith("test_")
    }
    return {name: each for name, each in modules.items() if callable(getattr(each, "attack", None))}


def run(name: str, module: ModuleType, count: int | None, seed: int, quick: bool) -> Count:
    """One attack, in a folder of its own; an attack that fails itself has found something."""
    usual = getattr(module.attack, "usual", (1000, 20))[quick]
    try:
        with TemporaryDirectory(prefix="attack") as folder, contextlib.chdir(folder):
            tally = module.attack(usual if count is None else count, seed)
        assert isinstance(tally, Count), f"{name}.attack returned a {type(tally).__name__}"
    except Exception:
        return Count(name, 1, Counter({CRASHED: 1}), [traceback.format_exc()])
    return tally


def main(arguments: list[str] | None = None) -> int:
    """Run what was named, or all; how many faults were found."""
    known = attacks()
    about = [f"  {name:15}{str(each.__doc__).splitlines()[0]}" for name, each in known.items()]
    parser = argparse.ArgumentParser(
        prog="python -m tests.attack",
        epilog="\n".join(["attacks:", *about]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, help="attempts of each attack")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a few attempts of each")
    parser.add_argument("--only", action="append", choices=list(known), help="this attack alone")
    given = parser.parse_args(arguments)
    return show(
        run(name, module, given.count, given.seed, given.quick)
        for name, module in known.items()
        if not given.only or name in given.only
    )


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
