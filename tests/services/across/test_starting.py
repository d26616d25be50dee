"""How a service begins that is asked for help, or has an impossible setting: real processes, one line, an exit code."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from asyncio.subprocess import PIPE
from itertools import takewhile
from pathlib import Path

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from deploy.local.ports import free_ports
from kraft.service.observer_pb2 import ListTracesRequest
from kraft.service.observer_pb2_grpc import ObserverStub
from quorate.runtime.calls.health import STARTUP
from quorate.runtime.clients.client import open_channel
from quorate.runtime.event_loop.loop import ExitCode
from quorate.runtime.settings.config import ConfigError, describe, load
from services.observer.config import ObserverConfig
from tests.services.scripted import WITHIN_S

ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith(("QUORATE_", "OTEL_"))}
SERVICES = ("quorum", "controller", "heartbeat", "placer", "observer")
OBSERVER = {
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "controller.quorum.bootstrap.servers": "127.0.0.1:1",
}
KAFKAS = {
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "bootstrap.controllers": "127.0.0.1:1",
}
ALONE = {
    "gateway": {
        "quorum.endpoint": "127.0.0.1:1",
        "controller.endpoint": "127.0.0.1:1",
        "heartbeat.endpoint": "127.0.0.1:1",
        "controller.quorum.voters": "7@127.0.0.1:1",
        "health.listeners": "HEALTH://127.0.0.1:0",
        "grpc.security.protocol": "PLAINTEXT",
    },
    "heartbeat": {"controller.quorum.bootstrap.servers": "127.0.0.1:1", "controller.endpoints": "127.0.0.1:1"},
    "observer": {"controller.quorum.bootstrap.servers": "127.0.0.1:1"},
    "placer": {},
}
"""What a service takes that starts without any other process and without a directory."""
MISSING = {
    "gateway": "the controller does not answer",
    "heartbeat": "no quorum node gives its log",
    "observer": "no quorum node gives its log",
}
"""What such a service says once a minute; a placer seeks nobody."""
RULE = (
    "must be a URL of SQLite or PostgreSQL as SQLAlchemy spells it, sqlite:////path or "
    "postgresql+psycopg://user@host/name, with %40 for an @ in a password, and the driver that it names installed"
)


def started(service: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A service's process, which ends by itself."""
    command = [sys.executable, "-m", f"services.{service}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRON, timeout=120, check=False)


def with_database(url: str) -> list[str]:
    """The arguments of an observer that keeps its spans there."""
    settings = {**OBSERVER, "observer.database.url": url}
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


@pytest.mark.parametrize("service", SERVICES)
def test_help_is_the_settings_and_no_error(service: str) -> None:
    ended = started(service, "--help")

    assert (ExitCode.STOPPED, "") == (ended.returncode, ended.stderr)
    assert ended.stdout.startswith("Settings: --config FILE (properties), --set NAME=VALUE")
    assert "\nlisteners  [required]  QUORATE_LISTENERS\n" in ended.stdout


@pytest.mark.parametrize("service", SERVICES)
def test_an_option_that_there_is_not_is_one_line(service: str) -> None:
    ended = started(service, "--hlep")
    line, *more = ended.stderr.splitlines()

    assert (ExitCode.MISCONFIGURED, "", []) == (ended.returncode, ended.stdout, more)
    assert line.startswith("fatal: ")
    assert "argument '--hlep': only --config FILE, --set NAME=VALUE and --help are known" in line


def test_services_log_their_settings_say_whom_they_do_not_reach_and_end_when_they_are_asked_to() -> None:
    """All at once, as each waits for some seconds before it says that it is alone."""
    settings = {name: {"node.id": "7", "listeners": "PLAINTEXT://127.0.0.1:0", **own} for name, own in ALONE.items()}
    processes = {name: begun(name, own) for name, own in settings.items()}
    for name, process in processes.items():
        assert process.stderr is not None
        last = f'event="{MISSING[name]}" sought_at=127.0.0.1:1' if name in MISSING else "event=listening"
        told = list(takewhile(lambda line, last=last: last not in line, process.stderr))
        process.terminate()
        _, more = process.communicate(timeout=120)
        (starting,) = [line for line in told if "event=starting" in line]

        lacking = [f"{key}={value}" for key, value in settings[name].items() if f" {key}={value}" not in starting]
        assert (name, [], ExitCode.STOPPED) == (name, lacking, process.returncode), more


def begun(service: str, settings: dict[str, str]) -> subprocess.Popen[str]:
    arguments = [f"--set={key}={value}" for key, value in settings.items()]
    command = [sys.executable, "-m", f"services.{service}", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRON)


@pytest.mark.parametrize(
    "url",
    [
        "not a url with hunter2",
        "mysql://me:hunter2@host/spans",
        "postgresql+nothing://me:hunter2@host/spans",
        "postgresql+psycopg://me:hunter2@host:port/spans",
        "postgresql+psycopg://me:hun@ter2@host/spans",
        "sqlite://two/slashes.db",
        "sqlite:////spans.db?timeout=soon",
    ],
)
def test_an_observer_refuses_a_database_that_cannot_be(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(ObserverConfig, with_database(url), {})

    assert (f"observer.database.url = *** (--set): {RULE}",) == refused.value.problems


def test_an_observer_takes_what_it_can_open_and_tells_no_password() -> None:
    urls = ["sqlite://", "sqlite:////var/spans.db", "postgresql+psycopg://me:hunter2@host:5432/spans?sslmode=require"]
    taken = [load(ObserverConfig, with_database(url), {}) for url in urls]

    assert urls == [config.database for config in taken]
    assert {"***"} == {describe(config)["observer.database.url"] for config in taken}
    assert [] == [config for config in taken if "hunter2" in repr(config)]


@pytest.mark.parametrize("is_hung", [True, False], ids=["hung", "refused"])
async def test_an_observer_starts_and_stops_while_its_database_is_away(is_hung: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hung:
        nobody, port = free_ports(2)
        url = f"postgresql+psycopg://me:hunter2@127.0.0.1:{hung.getsockname()[1] if is_hung else nobody}/spans"
        settings = ("--set", f"listeners=PLAINTEXT://127.0.0.1:{port}")
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("QUORATE_", "OTEL_"))}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.observer", *with_database(url), *settings), stderr=PIPE, env=environ
        )
        try:
            async with asyncio.timeout(WITHIN_S), open_channel(f"127.0.0.1:{port}") as channel:
                asked = HealthCheckRequest(service=STARTUP)
                answer = await HealthStub(channel).Check(asked, wait_for_ready=True)
                spans = ListTracesRequest(limit=-1)
                with pytest.raises(grpc.aio.AioRpcError, match="limit -1 is negative"):
                    await ObserverStub(channel).ListTraces(spans)
                assert process.stderr is not None
                told = b""
                while not is_hung and b"the database of spans is away" not in told:
                    told = await process.stderr.readline()
                    assert told, "it ended"
                process.terminate()  # for the one that hangs: while it hangs
                ended = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    assert (HealthCheckResponse.SERVING, ExitCode.STOPPED) == (answer.status, ended)
    assert is_hung or b"level=warning" in told
    assert b"hunter2" not in told


def test_an_observer_whose_file_is_no_database_says_so_and_ends(tmp_path: Path) -> None:
    file = tmp_path / "spans.db"
    file.write_text("a letter to a friend, and longer than a database's header is: " + 100 * "so long, ")
    refused = [started("observer", *with_database(f"sqlite:///{each}")) for each in (file, tmp_path / "none" / "a.db")]
    lines = [ended.stderr.splitlines()[-1] for ended in refused]

    assert [ExitCode.MISCONFIGURED] * 2 == [ended.returncode for ended in refused]
    for each, line in zip((file, tmp_path / "none" / "a.db"), lines, strict=True):
        start = f"fatal: 1 problem in the configuration: observer.database.url = sqlite:///{each}: "
        assert line.startswith(start + "must be a database that we may use: ")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            OBSERVER | KAFKAS,
            "controller.quorum.bootstrap.servers and bootstrap.controllers: both are given; the log of one quorum is "
            "read, of our nodes or of Kafka controllers",
        ),
        (
            {"node.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0"},
            "controller.quorum.bootstrap.servers and bootstrap.controllers: neither is given; the log of one quorum "
            "is read, of our nodes or of Kafka controllers",
        ),
        (
            OBSERVER | {"command.config": "client.properties"},
            "command.config = client.properties: is for bootstrap.controllers, which is not given",
        ),
        (
            {**KAFKAS, "observer.log.relay": "true"},
            "observer.log.relay = true: must be false with bootstrap.controllers; fetches are handed on to quorum "
            "nodes alone",
        ),
        (
            {**KAFKAS, "command.config": "nowhere"},
            "command.config = nowhere: cannot be read: No such file or directory",
        ),
        ({**KAFKAS, "command.config": "/"}, "command.config = /: it is no file"),
        ({**KAFKAS, "bootstrap.controllers": "kafka"}, "bootstrap.controllers = 'kafka' (--set): must be "),
        (
            {**KAFKAS, "observer.state.database.url": "sqlite://"},
            "observer.state.database.url: in memory nothing is kept; it must be a file, or a server",
        ),
        (
            {**KAFKAS, "observer.state.history.retention.ms": "3599999"},
            "observer.state.history.retention.ms = 3599999: must be -1 or at least 3,600,000, as pages of it are read",
        ),
        (
            {**KAFKAS, "observer.state.database.url": "sqlite:////a.db", "observer.database.url": "sqlite:////a.db"},
            "observer.state.database.url: must be another database than observer.database.url, of spans",
        ),
        ({**KAFKAS, "bootstrap.controler": "x"}, "did you mean bootstrap.controllers?"),
    ],
)
def test_an_observer_reads_the_log_of_one_quorum(settings: dict[str, str], problem: str) -> None:
    arguments = [f"--set={key}={value}" for key, value in settings.items()]
    with pytest.raises(ConfigError) as refused:
        load(ObserverConfig, arguments, {})

    assert any(problem in each for each in refused.value.problems), refused.value.problems


def test_a_quorum_node_that_nobody_would_find_is_refused(tmp_path: Path) -> None:
    """Port 0 is one that the system chooses; the others have this node's port from the voters record."""
    given = {"node.id": "1", "metadata.log.dir": str(tmp_path), "listeners": "CONTROLLER://127.0.0.1:0"}
    plain = {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT"}
    ended = started("quorum", *(f"--set={key}={value}" for key, value in (given | plain).items()))

    assert ExitCode.MISCONFIGURED == ended.returncode
    assert "listeners = CONTROLLER://127.0.0.1:0: must have a port from 1 to 65535" in ended.stderr.splitlines()[-1]


def test_an_observer_refuses_a_clients_file_with_a_property_that_it_does_not_read(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text('security.protocol=SASL_SSL\nsasl.mechansim=PLAIN\nsasl.jaas.config=x password="hunter2";\n')
    given = [f"--set={key}={value}" for key, value in (KAFKAS | {"command.config": str(file)}).items()]
    ended = started("observer", *given)

    assert ExitCode.MISCONFIGURED == ended.returncode
    assert [
        f"fatal: 1 problem in the configuration: command.config = {file}: sasl.mechansim is not read here; "
        "did you mean sasl.mechanism?"
    ] == ended.stderr.splitlines()


@pytest.mark.parametrize("service", ["quorum", "controller"])
@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", ""])
def test_what_is_advertised_is_an_address_that_others_can_connect_to(service: str, host: str) -> None:
    """KafkaConfig refuses the same: it would stand in the log, and be every reader's own machine."""
    ended = started(service, "--set", f"advertised.listeners=CONTROLLER://{host}:9093")

    assert ExitCode.MISCONFIGURED == ended.returncode
    assert f"advertised.listeners = 'CONTROLLER://{host}:9093' (--set): must be" in ended.stderr
    assert "so not 0.0.0.0 or ::" in ended.stderr
