"""The examples in docstrings say what happens, and everything public has one, or a reason why not."""

import doctest
import inspect
from pathlib import Path

import pytest

import tvbandits
from docs.making.public_names import public_names
from tests.helpers.modules import modules

PARSER = doctest.DocTestParser()
SECTION = "\nExamples\n--------\n"

NEEDS_FILES = "reads tables that are fetched from elsewhere"
NEEDS_BROKER = "needs a broker; tests/experts/test_mqtt.py plays it against one"
# Public, and without an example that could run here.
REASONS = {
    "tvbandits.campaign.service.remote.Remote": "needs a server that runs; docs/service.md starts one",
    "tvbandits.core.protocols.Expert": "a protocol; `CallableExpert` is one",
    "tvbandits.core.protocols.Problem": "a protocol; `DriftingBump` is one",
    "tvbandits.core.protocols.inform": "for those who write wrappers; docs/your-own-expert.md has one",
    "tvbandits.datasets.epa_ozone.fetch.fetch_ozone": "downloads from a server",
    "tvbandits.datasets.epa_ozone.problem.ozone": NEEDS_FILES,
    "tvbandits.datasets.finite.abalone": NEEDS_FILES,
    "tvbandits.datasets.finite.california": NEEDS_FILES,
    "tvbandits.experts.sensors.mqtt.MQTTStation": NEEDS_BROKER,
    "tvbandits.experts.sensors.mqtt.MQTTTransport": NEEDS_BROKER,
    "tvbandits.experts.sensors.expert.Transport": "a protocol; `StubTransport` is one",
    "tvbandits.queries.plans.Budget": "a protocol; `LogSchedule` is one",
    "tvbandits.queries.plans.QueryPlan": "a protocol; `RandomPoints` is one",
}

# Docstrings of all public functions and classes; what is raised is shown by who raises it.
PUBLIC = {
    name: inspect.getdoc(value) or ""
    for name, value in public_names().items()
    if inspect.isroutine(value) or (inspect.isclass(value) and not issubclass(value, BaseException))
}

WITH_EXAMPLES = sorted(name for name, text in PUBLIC.items() if SECTION in text)


def run(test: doctest.DocTest) -> int:
    """How many lines an example has; it fails with what was expected and what came."""
    runner, said = doctest.DocTestRunner(verbose=False), list[str]()
    runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)
    return runner.tries


def test_everything_public_has_an_example_or_a_reason() -> None:
    missing = PUBLIC.keys() - set(WITH_EXAMPLES) - REASONS.keys()
    assert not missing, f"public, without Examples in the docstring: {sorted(missing)}"


def test_no_reason_is_out_of_date() -> None:
    assert not REASONS.keys() & set(WITH_EXAMPLES)
    assert REASONS.keys() <= PUBLIC.keys()
    assert all(REASONS.values())


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_public_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PUBLIC[name].partition(SECTION)[2]
    assert run(PARSER.get_doctest(text, {}, name, None, None)) > 0


def other_examples() -> list[doctest.DocTest]:
    """Docstrings with examples that are not public: of methods, of modules, of what stands behind."""
    finder, found = doctest.DocTestFinder(), {}
    for module in (tvbandits, *modules()):
        for each in finder.find(module):
            if each.examples and each.name not in WITH_EXAMPLES:
                found[each.name] = each
    return list(found.values())


@pytest.mark.parametrize("test", other_examples(), ids=lambda test: test.name)
def test_any_other_example_runs(
    test: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(test)
