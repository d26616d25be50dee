"""For all tests: at the end, what was not shown here and how to get it is said aloud."""

from __future__ import annotations

import gc
import logging
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from deploy.kafka import node
from deploy.local import launching
from quorate import runtime as runtime  # before gRPC, whose core reads what it sets
from tests.forking.client import ForkServers
from tests.outcomes import ENVIRONMENT, ONCE, Once, Recorder

if TYPE_CHECKING:
    from tests.interop.kafka.toolbox import KeptTools

# Assertions of the helpers tell values, too; said before any of them is imported.
pytest.register_assert_rewrite("tests.e2e", "tests.interop")

# Timings are never asserted: how long an example takes, or its making, says how busy the machine is.
UNTIMED = settings(
    settings.get_profile("default"), deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("explore", UNTIMED)
# In CI the examples are those that a test's own text gives: the same commit passes again where it has passed. New ones
# are found by everybody else, at each run, and by `make explore`.
settings.register_profile("repeat", UNTIMED, derandomize=True, database=None)
settings.load_profile("repeat" if os.environ.get("CI") else "explore")

TESTS = Path(__file__).parent
os.environ["QUORATE_CONTEXTS"] = str(TESTS / "none.toml")  # those of who runs the tests are for no test
LONG = (
    "sim_services/test_seeds.py",
    "sim_driver/test_seeds.py",
    "sim/test_seeds.py",
    "e2e/test_to_tls.py",
    "sim/test_kafka_voters.py",
    "seeds/test_determinism.py",
    "sim_controller/test_seeds.py",
    "exhaustive/test_walks.py",
    "interop/test_enforcement_compared.py",
    "interop/operations/test_operations.py",
    "interop/test_gateway_listeners.py",
    "interop/test_mixed_start.py",
    "interop/test_mixed_voters.py",
    "pipeline/test_jobs.py",
    "bench/test_pipeline_benches.py",
    "pipeline/test_incident.py",
    "pipeline/test_stream_kills.py",
)
"""Files of few tests that take minutes, the longest first: a run begins with them, as its end waits for the last."""

HOW_TO_GET = {
    "interop": "a Kafka release as judge: needs a JDK 17 and Maven; `make interop`",
    "mutants": "planted bugs: minutes; `pytest tests -m mutants`, `make mutants mutants-glue`",
    "netns": "partitions and slow links between network namespaces: needs root and iproute2; `make netns`",
}


def pytest_configure(config: pytest.Config) -> None:
    from tests.interop.kafka.toolbox import KeptTools  # not before its assertions can be rewritten

    config.stash[DESELECTED] = Counter()
    if os.environ.get(PLAIN) != "1" and hasattr(os, "pidfd_open"):
        config.stash[FORKING] = ForkServers()
        launching.launch_by(config.stash[FORKING].launch)
    config.stash[KEPT_TOOLS] = KeptTools()
    node.tools_run_by(config.stash[KEPT_TOOLS].run)
    if directory := os.environ.get(ENVIRONMENT):
        is_worker = hasattr(config, "workerinput")
        config.pluginmanager.register(Recorder(Path(directory).absolute(), is_worker=is_worker))
    if directory := os.environ.get(ONCE):
        config.pluginmanager.register(Once(Path(directory).absolute(), config.rootpath))


def pytest_unconfigure(config: pytest.Config) -> None:
    if (servers := config.stash.get(FORKING, None)) is not None:
        launching.launch_by(launching.launch_plainly)
        servers.close()
    node.tools_run_by(node.run_apart)
    config.stash[KEPT_TOOLS].close()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected stays: to look for garbage in it, then and at each later look, took a quarter of reading it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files keep their order but for LONG: `--no-loadscope-reorder`, as xdist would begin with those of most tests."""
    place = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path.relative_to(TESTS).as_posix(), len(place)))


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in HOW_TO_GET:
            if item.get_closest_marker(mark):
                item.config.stash[DESELECTED][mark] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist sends its counts to the process that prints the summary."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output[LEFT_OUT] = dict(session.config.stash[DESELECTED])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Each worker collected every test: the largest count is the number of tests, not the sum."""
    node.config.stash[DESELECTED] |= Counter(getattr(node, "workeroutput", {}).get(LEFT_OUT, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skipped = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    )
    left_out = config.stash[DESELECTED]
    if not skipped and not left_out:
        return
    terminalreporter.section("not shown by this run", sep="!", yellow=True, bold=True)
    for mark, count in left_out.items():
        terminalreporter.write_line(f"{count} tests left out: {HOW_TO_GET[mark]}", yellow=True)
    for reason, count in skipped.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason}", yellow=True)


LEFT_OUT = "left_out"
DESELECTED = pytest.StashKey[Counter[str]]()
FORKING = pytest.StashKey[ForkServers]()
KEPT_TOOLS: pytest.StashKey[KeptTools] = pytest.StashKey()
PLAIN = "QUORATE_PLAIN_PROCESSES"
"""With 1, each process of a plan is started as any program is, not forked from one that has imported its modules."""


@pytest.fixture(scope="module", autouse=True)
def started_plainly(request: pytest.FixtureRequest) -> Iterator[None]:
    """A module with PLAIN_PROCESSES is about how processes start, or measures them: its own are not forked."""
    if not getattr(request.module, "PLAIN_PROCESSES", False):
        yield
        return
    before = launching.launch_by(launching.launch_plainly)
    yield
    launching.launch_by(before)


@pytest.fixture
def restored_logs() -> Iterator[None]:
    """A test that starts logs of its own leaves the root logger as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
