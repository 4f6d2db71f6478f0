"""Injections of bad arguments into everything public: each refused by name, or made good use of.

Every parameter of every public callable and method (`calls`) is given each of a hundred values that
people give by mistake or to do harm (`bad_values`). A refusal is a ValueError, a TypeError or an OSError
that names the parameter or the value. What is taken must be of the type that the annotation names, and
must then work: a bandit is made of it and played, a problem is asked for its values, an expert is asked.
With --count fewer than all pairs, a random choice of them is tried.
"""

import contextlib
import io
import itertools
import re
import resource
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import RBF, Kernel

from tests.attack.bad_values import BAD, Bad, fits
from tests.attack.calls import Call, calls, spelled
from tests.attack.good_values import expert, line, reward
from tests.attack.report import (
    CRASHED,
    HALF_DONE,
    SILENT,
    Count,
    Found,
    TooLongError,
    Trial,
    in_the_loop,
    in_time,
    some,
)
from tvbandits import (
    Bandit,
    Campaign,
    Clock,
    Exact,
    ExpertError,
    Nystrom,
    NystromFilter,
    Recipe,
    StateSpace,
)
from tvbandits.bandit.adapter import PolicyAdapter
from tvbandits.domains.domain import AtContext
from tvbandits.domains.problem import Problem
from tvbandits.domains.space_kernel import PerParameter
from tvbandits.forgetting.aging import Wiener
from tvbandits.gp.kernels.space_time import Drift, OnSpace
from tvbandits.gp.linalg import FactorisationError
from tvbandits.gp.online import Every
from tvbandits.queries.plans import QueryConfig

# So long may a call take, with the use that is made of its result.
SECONDS = 20

# So many bytes may the process take.
MEMORY = 6 << 30

# Calls that are documented as welcome though the annotation does not say so.
WELCOME = (
    # Rows or names are welcome in any sequence.
    r".*\((among|points|context|ids|keys|labels|notes|stations)="
    r"(array of .*|categorical|Series of NA)\)",
    # None is the default width.
    r"policies\.\w+\(beta=None\)",
    # What a visit brought, or somebody says that it would bring.
    r"(tvbandits\.(Bandit|Campaign)|policies\.\w+)\.(tell|correct)\(y=(True|False|np\.True_)\)",
    r"tvbandits\.(Bandit|Campaign)\.(answer|correct_answers)\(values=(True|False|np\.True_)\)",
    # A number is a width, and a name of one.
    r".*Recipe\(beta=.*",
    # A number is a point of a line.
    r"experts\.Station\(coordinates=.*",
)

# Calls that may take their time: what is asked for is long.
ASKED_FOR = (
    r"tvbandits\.compare\(n_jobs=.*",
    # Rewards that say nothing: batches of ten thousand points, as documented.
    r"policies\.(gp_bucb|bbkb|tv_bbkb)\(noise_variance=.*",
)


@contextlib.contextmanager
def in_little_memory(most: int = MEMORY) -> Iterator[None]:
    """What needs more raises a MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


# --- what is made of what was taken ---------------------------------------------------------------


def use(made: Any) -> None:
    """Make use of what a call returned: what was taken without a word has to work."""
    if isinstance(made, Iterator):
        for _ in itertools.islice(made, 50):
            pass
    elif made is None or isinstance(made, np.ndarray | tuple | list | str | dict):
        return
    elif isinstance(made, Bandit | PolicyAdapter):
        play(made)
    elif isinstance(made, Campaign):
        with made:
            made.predict(made.recipe.domain.sample(2, np.random.default_rng(0)), 15.0)
    elif isinstance(made, Recipe):
        play(Bandit(made))
    elif isinstance(made, Kernel):
        use_as_a_kernel(made)
    elif isinstance(made, Clock):
        made.time(made.number(made.time(1.0).to_pydatetime()))
    elif isinstance(made, Problem):
        made.value(made.domain.sample(2, np.random.default_rng(0)), 1.0)
        made.best(1.0)
    else:
        use_as_a_part(made)


def use_as_a_kernel(made: Kernel) -> None:
    """A kernel over a line, or over the parameters of its own space."""
    if isinstance(made, PerParameter):
        made(np.zeros((2, sum(width for _, width in made.parts))))
    else:
        play(Bandit(Recipe(line(), made, 0.01)))


# Parts of a recipe, and what they are called there.
PARTS: tuple[tuple[Any, str], ...] = ((Exact | Nystrom | StateSpace, "posterior"), (Every, "learn"))


def use_as_a_part(made: Any) -> None:
    """A part of a recipe, by its kind; a domain or an expert, by what it can do."""
    for kind, name in PARTS:
        if isinstance(made, kind):
            # What is learned is the pace of an aging map, say; a filter has a kernel that forgets.
            others = {"aging": Wiener(0.1)} if name == "learn" else {}
            forgets = isinstance(made, NystromFilter)
            kernel = OnSpace(RBF(1.5)) * Drift(0.1) if forgets else RBF(1.5)
            play(Bandit(Recipe(line(), kernel, 0.01, **{name: made}, **others)))
            return
    use_by_what_it_can_do(made)


def use_by_what_it_can_do(made: Any) -> None:
    """A domain, an expert, a plan, an aging map or a width."""
    if isinstance(made, AtContext):  # what one decision chooses from, and no domain of a bandit
        made.maximize(lambda X: X[:, 0], np.random.default_rng(0))
        return
    if isinstance(made, pd.DataFrame):  # rows of a comparison, which have a `query` of their own
        return
    if hasattr(made, "maximize") and hasattr(made, "dimension"):
        bandit = Bandit(Recipe(made, RBF(1.5), 0.01))
        bandit.tell(bandit.ask(1.0, n=1), [0.5], 1.0)
        bandit.ask(2.0)
    elif hasattr(made, "query") and hasattr(made, "dimension"):
        made.query(np.zeros((1, made.dimension)), 1.0)
    elif hasattr(made, "query"):
        for x in (0.0, 5.0):
            made.query(np.array([[x]]), 1.0)
    elif hasattr(made, "choose"):
        play(
            Bandit(
                Recipe(
                    line(), RBF(1.5), 0.01, query_config=QueryConfig(made, expert(), pool="domain")
                )
            )
        )
    elif "aging" in type(made).__module__:
        play(Bandit(Recipe(line(), RBF(1.5), 0.01, aging=made)))
    elif "widths" in type(made).__module__:
        play(Bandit(Recipe(line(), RBF(1.5), 0.01, beta=made)))
    elif isinstance(made, float | np.floating):
        assert not np.isnan(made), "a number is NaN"


def play(bandit: Any) -> None:
    """A few steps."""
    for t in (11.0, 12.0, 13.0, 14.0):
        X = bandit.ask(t)
        bandit.tell(X, reward(X, t), t)
    if isinstance(bandit, Bandit):
        mean, deviation = bandit.predict(X, 15.0)
        assert np.isfinite(mean).all(), f"a mean is {mean}"
        assert np.isfinite(deviation).all(), f"a deviation is {deviation}"
        assert (deviation >= 0).all(), f"a deviation is {deviation}"
        bandit.recommend(15.0)


# --- judging --------------------------------------------------------------------------------------

# Kinds of errors with a message for people.
OURS = (ValueError, TypeError, OSError, FactorisationError, ExpertError, ImportError)


def is_named(message: str, name: str, value: Any) -> bool:
    """Whether a message speaks of the parameter by its name."""
    if isinstance(value, str | Path) and len(str(value)) > 1 and str(value) in message:
        return True  # a file that is not there
    if "No such file or directory" in message or "there is no SQLite file" in message:
        return True
    if "must have shape" in message or "nobody has asked the expert" in message:
        return True  # two arguments disagree, and the other is named
    if "nothing was recorded: if it is right" in message:
        return True  # a doubt, which shows site and value
    words = [re.escape(each) for each in spelled(name)]
    return re.search(rf"(?<![A-Za-z_])({'|'.join(words)})(?![A-Za-z_])", message) is not None


def is_shown(message: str, value: Any) -> bool:
    """Whether a message shows what was given, or says what it is."""
    if isinstance(value, str | Path) and str(value) in message:
        return True
    if re.search(
        r"\b(got|given|gives?|none|not|no|nothing|No such|unknown|returned|returns)\b", message
    ):
        return True
    with contextlib.suppress(Exception):
        return repr(value)[:20] in message
    return False


def message_of(error: Exception) -> str:
    """What an error says; nothing, if it shows a value that cannot be shown."""
    try:
        return str(error)
    except Exception:
        return ""


def judge(error: Exception, name: str, value: Any) -> str:
    """What an error for people comes to; `Found` if it is none."""
    message = message_of(error)
    kind = type(error).__name__
    said = f"{kind}: {message[:160]!r}"
    if isinstance(error, LookupError) and "somebody else" in message:
        return "the part's own error"
    if isinstance(error, AssertionError) and "protocol" in message:
        return "refused by a report"
    if isinstance(error, FactorisationError):
        return "refused with a remedy"
    if not isinstance(error, OURS) or type(error) is UnicodeEncodeError:
        raise Found(CRASHED, said) from error
    if isinstance(error, RecursionError | MemoryError):
        raise Found(CRASHED, said) from error
    if "\x1b" in message or "\0" in message:
        raise Found("terminal escapes", said) from error
    if len(message) > 3000:
        raise Found("endless message", f"{kind} of {len(message)} characters") from error
    if isinstance(error, OSError) and not isinstance(error, FileNotFoundError | ConnectionError):
        if len(message) < 12:
            raise Found("not named", said) from error
        return "refused by name"
    if not (is_named(message, name, value) or (callable(value) and "function" in repr(value))):
        raise Found("not named", said) from error
    if not is_shown(message, value):
        raise Found("not shown", said) from error
    return "refused by name"


def tried(call: Call, name: str, bad: Bad) -> str:
    """Give a parameter a bad value, and judge."""
    value = bad.make()
    welcome = fits(value, call.parameters[name]) or any(
        re.fullmatch(each, f"{call.name}({name}={bad.name})") for each in WELCOME
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            good = {**call.good(), name: value}
            function = call.make()
            holder = getattr(function, "__self__", None)
            before = holder.state if isinstance(holder, Bandit) else None
            made = function(**good)
        except TooLongError as error:
            raise Found("without end", str(error)) from error
        except Exception as error:
            if before is not None and holder.state is not before:
                raise Found(HALF_DONE, f"{type(error).__name__} and another state") from error
            return judge(error, name, value)
        if not welcome:
            raise Found(SILENT, f"taken; {type(made).__name__}")
        return used(made, name, value)


def used(made: Any, name: str, value: Any) -> str:
    """Make use of what was made of a value of the right type."""
    try:
        use(made)
    except TooLongError as error:
        raise Found("without end", f"taken, then {error}") from error
    except AssertionError as error:
        raise Found("taken, then wrong", str(error)) from error
    except Exception as error:
        try:
            judge(error, name, value)
        except Found as late:
            if not callable(value):
                raise Found("taken, then refused", str(late)) from error
            if not isinstance(error, OURS):
                raise
        return "refused when it was used"
    return "taken, and it works"


def judged(call: Call, name: str, bad: Bad) -> str:
    """Give it in time and in little memory, and judge."""
    said = f"{call.name}({name}={bad.name})"
    with in_little_memory(), in_time(SECONDS), contextlib.redirect_stdout(io.StringIO()):
        try:
            return tried(call, name, bad)
        except (TooLongError, Found) as error:
            endless = isinstance(error, TooLongError) or error.kind == "without end"
            if endless and any(re.fullmatch(each, said) for each in ASKED_FOR):
                return "as long as it was asked for"
            raise Found("without end" if endless else error.kind, str(error)) from error


@in_the_loop(10**9, 400)
def attack(found: Count, count: int, seed: int) -> Iterator[Trial]:
    """So many pairs of a parameter and a bad value; all, if there are not as many."""
    for call in calls():
        for name in call.unknown:
            found.fault("not tried", f"{call.name}({name}=) has no good value")
    every = [
        (call, name, bad)
        for call in calls()
        if not call.unknown
        for name in call.parameters
        for bad in BAD
    ]
    for call, name, bad in some(every, count, seed):
        yield f"{call.name}({name}={bad.name})", partial(judged, call, name, bad)
