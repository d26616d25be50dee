"""Which tests ran, over all calls of pytest in a CI run: each call leaves a file, and at the end they are put together.

    QUORATE_OUTCOMES=build/outcomes pytest …            each call leaves what became of every test that it collected
    QUORATE_OUTCOMES=… QUORATE_ONCE=build/outcomes …    and leaves out what has passed in a call before it
    python -m tests.outcomes report build/outcomes      the tests that ran in none of them; exit code 1 if there are any
    python -m tests.outcomes failed build/outcomes      the tests that failed when they were run last, a line each
    python -m tests.outcomes dearest build/outcomes     the files whose tests took longest and most of the processor

A test that was skipped, or left out by a marker, did not run: a green run must not hide it.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import pytest

ENVIRONMENT: Final = "QUORATE_OUTCOMES"
"""The directory for the files; without it nothing is written."""
ONCE: Final = "QUORATE_ONCE"
"""The directory of the files of earlier calls: what has passed there is not run again."""
RAN: Final = "ran"
FAILED: Final = "failed"
NOT_CHOSEN: Final = "left out by a marker or a name"
COLLECTING: Final = "(reading the tests, and what comes before the first)"
DEAREST: Final = 40
"""Files that `dearest` names."""

EXCUSED: Final[Mapping[str, str]] = {
    "tests/sim/test_mutants.py::test_a_planted_bug_is_found*": "planted bugs, half an hour: `make mutants`",
    "tests/sim_controller/test_mutants.py::test_a_planted_bug_is_found*": "planted bugs, an hour: `make mutants`",
    "tests/sim_driver/test_mutants.py::test_a_planted_bug_is_found*": "planted bugs, an hour: `make mutants`",
    "tests/pipeline/test_hdfs.py::test_libhdfs*": "Hadoop's libhdfs.so is in no registry: ARROW_LIBHDFS_DIR",
    "tests/kube/*": "builds images from Debian's packages: `pytest tests/kube -m kube`",
    "tests/conformance/test_message_json.py::*UnregisterController*-4.3.1*": "that release does not have the message",
    "tests/metadata/test_kafka_logs.py::*00000000000000000171-0000000001.checkpoint0*": "its log before is gone",
}
"""What CI does not run, by pattern, and why."""


class Recorder:
    """A plugin of pytest: writes one file when the session ends."""

    def __init__(self, directory: Path, *, is_worker: bool) -> None:
        """A worker of xdist collects; its outcomes go to the session that began it, too, which has the times."""
        self._directory = directory
        self._is_worker = is_worker
        self._outcomes: dict[str, str] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._of_processor: defaultdict[str, float] = defaultdict(float)
        self._file = COLLECTING
        self._seen = _of_processor()

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Before anything is left out."""
        self._outcomes[item.nodeid] = NOT_CHOSEN

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has run if its body was begun, or if it failed before."""
        if not self._is_worker:
            self._seconds[_file(report.nodeid)] += report.duration
        if report.skipped and isinstance(report.longrepr, tuple):
            self._outcomes[report.nodeid] = report.longrepr[2].removeprefix("Skipped: ")
        elif report.failed:
            self._outcomes[report.nodeid] = FAILED
        elif report.when == "call":
            self._outcomes[report.nodeid] = RAN

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """What the tests of a file cost is known when the next file begins: a session has them one after another."""
        if _file(nodeid) != self._file:
            self._count()
            self._file = _file(nodeid)

    def _count(self) -> None:
        before, self._seen = self._seen, _of_processor()
        self._of_processor[self._file] += self._seen - before

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A file of its own for each session."""
        self._count()
        if session.config.pluginmanager.has_plugin("dsession"):
            self._of_processor.clear()  # its workers have counted
        self._directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(
            {"outcomes": self._outcomes, "seconds": self._seconds, "processor": self._of_processor}, indent=0
        )
        (self._directory / f"{os.getpid()}-{len(list(self._directory.iterdir()))}.json").write_text(text)


class Once:
    """A plugin of pytest: leaves out what has passed before, and does not even read a file of which all tests have."""

    def __init__(self, directory: Path, root: Path) -> None:
        outcomes = list(_in_order(directory))
        self._passed = {test for test, outcome in outcomes if outcome == RAN} - set(failed(directory))
        left = {_file(test) for test, _ in outcomes if test not in self._passed}
        self._done = {root / file for file in {_file(test) for test in self._passed} - left}

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """None asks others."""
        return collection_path in self._done or None

    def pytest_collection_modifyitems(self, items: list[pytest.Item], config: pytest.Config) -> None:
        """Says nothing of what is left out: the call in which it passed has a line for it."""
        passed = [item for item in items if item.nodeid in self._passed]
        config.hook.pytest_deselected(items=passed)
        items[:] = [item for item in items if item.nodeid not in self._passed]


def _file(test: str) -> str:
    return test.partition("::")[0]


def _of_processor() -> float:
    """Seconds of this process and of all that it has started, those that have ended and were waited for, too."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            parents[int(place.name)] = int(fields[1])
            ticks[int(place.name)] = sum(map(int, fields[11:15]))  # user, system, and both of its children
    ours = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(ticks.get(each, 0) for each in ours) / os.sysconf("SC_CLK_TCK")


def unrun(directory: Path) -> dict[str, str]:
    """The tests that were collected and ran in no session, but for what is excused, each with the last reason heard."""
    reasons: dict[str, str] = {}
    for test, outcome in _in_order(directory):
        if reasons.get(test) not in (RAN, FAILED) and (outcome != NOT_CHOSEN or test not in reasons):
            reasons[test] = outcome
    unrun_ = {test: reason for test, reason in reasons.items() if reason not in (RAN, FAILED)}
    return {test: reason for test, reason in unrun_.items() if excuse(test) is None}


def failed(directory: Path) -> list[str]:
    """The tests that failed in the last session in which they ran."""
    last = {test: outcome for test, outcome in _in_order(directory) if outcome in (RAN, FAILED)}
    return [test for test, outcome in last.items() if outcome == FAILED]


def _in_order(directory: Path) -> Iterator[tuple[str, str]]:
    """Each test of each session and what became of it, the oldest session first."""
    for file in sorted(directory.rglob("*.json"), key=lambda file: file.stat().st_mtime_ns):
        yield from json.loads(file.read_text())["outcomes"].items()


def dearest(directory: Path) -> list[tuple[str, float, float]]:
    """The files, what their tests took by the clock, and of the processor with all that they started, both in seconds.

    Set-up and tear-down are counted; what took most of the processor comes first, as CI's processors are never idle.
    """
    seconds: Counter[str] = Counter()
    of_processor: Counter[str] = Counter()
    for file in directory.rglob("*.json"):
        left = json.loads(file.read_text())
        seconds.update(left["seconds"])
        of_processor.update(left["processor"])
    return [(file, seconds[file], cost) for file, cost in of_processor.most_common(DEAREST)]


def excuse(test: str) -> str | None:
    """Why CI does not run it; None if it has to."""
    return next((why for pattern, why in EXCUSED.items() if fnmatchcase(test, pattern)), None)


def main() -> int:
    """The exit code of `report` is 1 if a test ran nowhere."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.outcomes", description="Which tests ran in no call of pytest?"
    )
    parser.add_argument("command", choices=("report", "failed", "dearest"))
    parser.add_argument("directory", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "failed":
        print("".join(f"{test}\n" for test in failed(arguments.directory)), end="")
        return 0
    if arguments.command == "dearest":
        print(
            "".join(
                f"{clock:6.0f} s {cost:6.0f} s of a processor  {file}\n"
                for file, clock, cost in dearest(arguments.directory)
            ),
            end="",
        )
        return 0
    found = unrun(arguments.directory)
    for reason, count in Counter(found.values()).most_common():
        print(f"{count} ran nowhere: {reason}")
    for test in found:
        print(f"  {test}")
    for pattern, why in EXCUSED.items():
        print(f"excused: {pattern}: {why}")
    print(f"{len(found)} tests ran nowhere")
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
