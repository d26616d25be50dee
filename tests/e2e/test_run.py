"""`python -m deploy.local` (what `make run` starts), and grpcurl at its doors, as a person would use them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import sys
import warnings
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from deploy.local.processes import ROOT
from tests.cli.directories import run as by_command
from tests.e2e.calls import eventually
from tests.e2e.starting import said

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

WITHIN_S = 300
"""For nine processes to start and to end: a bound against hanging."""
NAMES = [
    "observer-201",
    *(f"quorum-{node_id}" for node_id in (1, 2, 3)),
    *(f"controller-{node_id}" for node_id in (1, 2, 3)),
    "placer-1",
    "heartbeat-1",
]
IN_THE_CLEAR = "speaks in the clear"
INSTALL = "go install github.com/fullstorydev/grpcurl/cmd/grpcurl@latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What `python -m deploy.local` printed, and what can be read off it."""

    printed: str

    @property
    def addresses(self) -> dict[str, str]:
        return dict(re.findall(r"^  ([a-z]+-\d+) +(127\.0\.0\.1:\d+)$", self.printed, re.M))

    @property
    def lines(self) -> list[str]:
        return re.findall(r"^  (grpcurl .+)$", self.printed, re.M)

    @property
    def commands(self) -> list[str]:
        """What `quorate` is asked by, without the command itself."""
        return re.findall(r"^  \S*/quorate (.+)$", self.printed, re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What grpcurl printed."""

    code: int
    out: str
    error: str

    @property
    def document(self) -> Any:
        assert 0 == self.code, self.error
        return json.loads(self.out)


def grpcurl_path() -> str | None:
    """grpcurl on the PATH, or where Go puts it."""
    places = [os.environ.get("PATH", ""), os.environ.get("GOBIN", "")]
    places += [str(Path(os.environ.get("GOPATH", Path.home() / "go")) / "bin")]
    return shutil.which("grpcurl", path=os.pathsep.join(filter(None, places)))


async def launch(directory: Path, *flags: str) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "deploy.local", "--directory", str(directory), *flags),
        cwd=ROOT,
        stdout=PIPE,
        stderr=PIPE,
        env={**os.environ, "COLUMNS": "120"},
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Run]:
    """It runs until the last test of this module; then Ctrl-C ends it."""
    child = await launch(tmp_path_factory.mktemp("run"))
    assert child.stdout is not None
    try:
        async with asyncio.timeout(WITHIN_S):
            printed = (await child.stdout.readuntil(b"Running until Ctrl-C")).decode()
        yield Run(printed=printed)
    finally:
        if child.returncode is None:
            child.send_signal(signal.SIGINT)
        async with asyncio.timeout(WITHIN_S):
            _, errors = await child.communicate()

    assert (0, "") == (child.returncode, errors.decode())


@pytest.fixture(scope="module")
def grpcurl() -> str:
    path = grpcurl_path()
    if path is None:
        warnings.warn(
            f"GRPCURL IS NOT ON THE PATH, so nobody has tried the doors with it. Install: {INSTALL}", stacklevel=1
        )
        pytest.skip(f"grpcurl is missing: {INSTALL}")
    return path


async def ask(grpcurl: str, *arguments: str) -> Answer:
    """What it printed; asked again as long as a server is away or another leads."""

    async def asked() -> Answer:
        child = await asyncio.create_subprocess_exec(grpcurl, "-plaintext", *arguments, stdout=PIPE, stderr=PIPE)
        out, error = await child.communicate()
        return Answer(code=child.returncode or 0, out=out.decode(), error=error.decode())

    return await eventually(asked, lambda answer: "Code: Unavailable" not in answer.error)


def warnings_of(log: Path) -> list[str]:
    """What a service wrote that is not a transition: nothing, if it was well from its first line to its last.

    How long a decision took says how busy the machine is.
    """
    lines = said(log)
    expected = ("exceptionally slow", IN_THE_CLEAR)
    found = [line for line in lines if " level=info " not in line and not any(each in line for each in expected)]
    return found if lines else [f"{log} is empty"]


async def test_once_shows_everything_and_ends(tmp_path: Path) -> None:
    child = await launch(tmp_path, "--once")
    async with asyncio.timeout(WITHIN_S):
        out, errors = await child.communicate()
    shown = Run(printed=out.decode())

    assert (0, "") == (child.returncode, errors.decode())
    assert {name: [] for name in NAMES} == {name: warnings_of(tmp_path / f"{name}.log") for name in NAMES}
    assert [] == [name for name in NAMES if IN_THE_CLEAR not in (tmp_path / f"{name}.log").read_text()]
    assert re.search(r"^topic orders  [\w-]{22}", shown.printed, re.M)
    assert 3 == len(re.findall(r"10[123],10[123],10[123].+10[123],10[123],10[123]", shown.printed))
    assert re.search(r"^quorum  leader [123]  epoch \d+  HWM \d+", shown.printed, re.M)
    assert re.search(r"^trace [0-9a-f]{32}", shown.printed, re.M)
    assert re.search(r"^ +write .* by=User:ANONYMOUS$", shown.printed, re.M)
    assert [] == [name for name in ("write", "commit", "append", "apply", "Place") if name not in shown.printed]
    assert ({}, []) == (shown.addresses, shown.lines), "nobody is there any more to paste them for"
    assert "stopping" == shown.printed.splitlines()[-1]


async def test_with_brokers_of_ours_records_outlive_the_kill_of_a_leader(tmp_path: Path) -> None:
    child = await launch(tmp_path, "--once", "--brokers")
    async with asyncio.timeout(WITHIN_S):
        out, errors = await child.communicate()
    printed = out.decode()

    assert (0, "") == (child.returncode, errors.decode())
    assert re.search(r"^kill -9 of broker (10[123]), which leads orders-0$", printed, re.M)
    assert re.search(r"^broker 10[123] is back; all 400 are read, each at its offset$", printed, re.M)
    produced = printed.partition("of one of these requests")[2]
    assert ["Produce", "append", "high watermark", "replicate", "replicate"] == sorted(
        re.findall(r"^ *(Produce|append|replicate|high watermark) +broker-10[123] ", produced, re.M)
    )


def processes_of(directory: Path) -> list[int]:
    """The ids of the processes that have the directory among their arguments."""

    def arguments(cmdline: Path) -> bytes:
        try:
            return cmdline.read_bytes()
        except OSError:  # it has just ended
            return b""

    found = Path("/proc").glob("[0-9]*/cmdline")
    return [int(each.parent.name) for each in found if str(directory).encode() in arguments(each)]


async def test_a_sigterm_while_it_starts_ends_it_and_its_services(tmp_path: Path) -> None:
    child = await launch(tmp_path, "--once")

    async def started() -> bool:
        return (tmp_path / "quorum-1.log").exists()

    assert await eventually(started, bool)
    child.terminate()
    async with asyncio.timeout(WITHIN_S):
        out, errors = await child.communicate()
    left = processes_of(tmp_path)
    for each in left:
        os.kill(each, signal.SIGKILL)

    assert (1, "") == (child.returncode, errors.decode())
    assert ["interrupted", "stopping"] == out.decode().splitlines()[-2:]
    assert [] == left


async def test_while_it_runs_it_says_where_everybody_is_and_what_to_ask(run: Run) -> None:
    assert NAMES == list(run.addresses)
    assert 4 == len(run.lines)
    assert 7 == len(run.commands)


async def test_the_commands_to_paste_work(run: Run) -> None:
    answered = [await asyncio.to_thread(by_command, *shlex.split(each)) for each in run.commands]
    described, tried, told, foretold, asked, traced, diagnosed = answered

    assert [0] * 6 == [each.code for each in answered[:-1]], answered
    assert described.out.startswith("leader ")
    assert "  invoices  would be created  " in tried.out
    assert "  topic orders is created with id " in told.out
    assert "Without broker 102, as of offset " in foretold.out
    assert ", as of offset " in asked.out
    assert "  create a topic  " in traced.out
    assert (True, "") == (diagnosed.code in (0, 1), diagnosed.err)


async def test_the_lines_to_paste_work(run: Run, grpcurl: str) -> None:
    to_list, to_create, to_describe, to_trace = (shlex.split(line)[2:] for line in run.lines)
    listed = await ask(grpcurl, *to_list)
    created = await ask(grpcurl, *to_create)
    quorum = await ask(grpcurl, *to_describe)

    async def roots() -> list[str]:
        return [trace["root"] for trace in (await ask(grpcurl, *to_trace)).document["traces"]]

    assert "kraft.service.Controller" in listed.out.split()
    assert [("payments", 2, 3)] == [
        (topic["name"], topic["num_partitions"], topic["replication_factor"]) for topic in created.document["topics"]
    ]
    assert 3 == len(quorum.document["topics"][0]["partitions"][0]["current_voters"])
    await eventually(roots, lambda seen: "kraft.service.Controller/CreateTopics" in seen)


@pytest.mark.parametrize("name", NAMES)
async def test_every_door_is_healthy_and_lists_what_it_serves(run: Run, grpcurl: str, name: str) -> None:
    service = f"kraft.service.{name.partition('-')[0].capitalize()}"
    listed = await ask(grpcurl, run.addresses[name], "list")
    health = await ask(grpcurl, run.addresses[name], "grpc.health.v1.Health/Check")

    assert {service, "grpc.health.v1.Health"} <= set(listed.out.split())
    assert {"status": "SERVING"} == health.document


async def test_a_service_and_a_message_describe_themselves(run: Run, grpcurl: str) -> None:
    door = run.addresses["controller-1"]
    service = await ask(grpcurl, door, "describe", "kraft.service.Controller")
    message = await ask(grpcurl, door, "describe", "kraft.api.CreateTopicsRequest")

    assert (
        "rpc CreateTopics ( .kraft.api.CreateTopicsRequest ) returns ( .kraft.api.CreateTopicsResponse )" in service.out
    )
    assert "option (.kraft.key) = 19;" in message.out
    assert "option (.kraft.versions)" in message.out
    assert re.search(r"bool validate_only = 3\b", message.out)


REFUSED = {
    "a broker whose id is no uuid": (
        "BrokerRegistration",
        {"broker_id": 101, "incarnation_id": "not-a-uuid"},
        "InvalidArgument",
        "INVALID_REQUEST",
    ),
    "a broker of another cluster": (
        "BrokerRegistration",
        {"broker_id": 7, "cluster_id": "another", "listeners": [{"name": "PLAINTEXT", "host": "h", "port": 1}]},
        "FailedPrecondition",
        "INCONSISTENT_CLUSTER_ID",
    ),
    "a cursor before the first partition": (
        "DescribeTopicPartitions",
        {"cursor": {"topic_name": "orders", "partition_index": -1}},
        "InvalidArgument",
        "INVALID_REQUEST",
    ),
    "a name that no record can hold": (
        "CreateTopics",
        {"topics": [{"name": "a" * 32_768, "num_partitions": 1, "replication_factor": 1}]},
        "InvalidArgument",
        "INVALID_REQUEST",
    ),
    "no state": ("ChangeBrokerState", {"broker_id": 101}, "InvalidArgument", "INVALID_REQUEST"),
    "a state that there is not": (
        "ChangeBrokerState",
        {"broker_id": 101, "target": 9},
        "InvalidArgument",
        "INVALID_REQUEST",
    ),
}


@pytest.mark.parametrize("door", ["controller-1", "controller-2", "controller-3"])
@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
async def test_a_refusal_comes_with_its_details(
    run: Run, grpcurl: str, door: str, refused: tuple[str, dict[str, Any], str, str]
) -> None:
    rpc, request, status, reason = refused
    answer = await ask(grpcurl, "-d", json.dumps(request), run.addresses[door], f"kraft.service.Controller/{rpc}")

    assert 0 != answer.code
    assert f"Code: {status}\n" in answer.error
    assert "google.rpc.ErrorInfo" in answer.error
    assert f'"reason": "{reason}"' in answer.error


@pytest.mark.parametrize("door", ["controller-1", "controller-2", "controller-3"])
async def test_a_bad_field_is_named(run: Run, grpcurl: str, door: str) -> None:
    request = '{"broker_id": 101, "incarnation_id": "not-a-uuid"}'
    answer = await ask(grpcurl, "-d", request, run.addresses[door], "kraft.service.Controller/BrokerRegistration")

    assert "google.rpc.BadRequest" in answer.error
    assert re.search(r'"field": "incarnation_?[iI]d"', answer.error)
    assert "not-a-uuid" in answer.error
