"""A service's process from start to exit code: real processes, real signals."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping

import pytest

from quorate.runtime.event_loop.loop import ExitCode

PRELUDE = """
import asyncio, sys
from quorate.errors import Corrupt
from quorate.runtime.settings.config import ConfigError
from quorate.runtime.event_loop.loop import CannotListen, run
from quorate.runtime.calls.server import Server
"""


def process(body: str, environ: Mapping[str, str] | None = None, options: str = "") -> subprocess.Popen[str]:
    """A Python process that runs `async def main(life)` with this body; it says `up` when it says so itself."""
    indented = "\n".join(f"    {line}" for line in body.strip().splitlines())
    program = f"{PRELUDE}\nasync def main(life):\n{indented}\nraise SystemExit(run(main{options}))\n"
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environ or {})},
    )


def ended(started: subprocess.Popen[str], *signals: signal.Signals) -> tuple[int, list[str], list[str]]:
    """Exit code, output and errors; each signal is sent after a line of output."""
    assert started.stdout is not None
    lines = []
    for number in signals:
        lines.append(started.stdout.readline().strip())
        started.send_signal(number)
    out, err = started.communicate(timeout=240)
    return started.returncode, lines + out.split(), [line for line in err.splitlines() if line.startswith("fatal: ")]


UNTIL_STOPPED = """
print("up", flush=True)
await life.stopping()
print("down")
"""


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_thread_that_hangs_keeps_no_process_from_ending(loop: str) -> None:
    waits = "import threading; hanging = asyncio.ensure_future(asyncio.to_thread(threading.Event().wait))"

    assert (0, ["up", "down"], []) == ended(
        process(f"{waits}\n{UNTIL_STOPPED}", {"QUORATE_EVENT_LOOP": loop}), signal.SIGTERM
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_signal_stops_it_in_good_order(number: signal.Signals, loop: str) -> None:
    assert (0, ["up", "down"], []) == ended(process(UNTIL_STOPPED, {"QUORATE_EVENT_LOOP": loop}), number)


def test_it_may_open_as_many_files_as_the_system_allows() -> None:
    low = "import resource; _, hard = resource.getrlimit(7); resource.setrlimit(7, (256, hard))"
    program = f"{low}\n{PRELUDE}\nasync def main(life): print(*resource.getrlimit(7))\nraise SystemExit(run(main))"
    soft, hard = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()

    assert 7 == resource.RLIMIT_NOFILE
    assert soft == hard


def test_uvloop_runs_it_unless_it_is_refused() -> None:
    name = "print(type(asyncio.get_running_loop()).__module__.split('.')[0])"

    assert ["uvloop"] == ended(process(name))[1]
    assert ["asyncio"] == ended(process(name, {"QUORATE_EVENT_LOOP": "asyncio"}))[1]


def test_it_ends_when_main_returns() -> None:
    assert (ExitCode.STOPPED, ["done"], []) == ended(process("print('done')"))


def test_a_second_signal_does_not_wait() -> None:
    body = """
print("up", flush=True)
await life.stopping()
print("stopping", flush=True)
await asyncio.sleep(60)
"""
    code, lines, fatal = ended(process(body), signal.SIGTERM, signal.SIGTERM)

    assert (ExitCode.FAILED, ["up", "stopping"], ["fatal: cancelled: a second SIGTERM"]) == (code, lines, fatal)


def test_a_stop_that_takes_too_long_is_cut_off() -> None:
    body = UNTIL_STOPPED + "\nawait asyncio.sleep(60)"
    code, _, fatal = ended(process(body, options=", stop_timeout_s=0.1"), signal.SIGTERM)

    assert (ExitCode.FAILED, ["fatal: TimeoutError: did not stop within 0.1 s of being asked to"]) == (code, fatal)


def test_what_fails_on_the_way_to_a_stop_is_told() -> None:
    code, _, fatal = ended(process(UNTIL_STOPPED + "\nlife.fail(Corrupt('bad magic 9'))"), signal.SIGTERM)

    assert (ExitCode.CORRUPT, ["fatal: bad magic 9"]) == (code, fatal)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (
            "ConfigError(['node.id: is missing; it must be an integer'])",
            ExitCode.MISCONFIGURED,
            "fatal: 1 problem in the configuration: node.id: is missing; it must be an integer",
        ),
        ("Corrupt('checksum 1, not 2', position=61)", ExitCode.CORRUPT, "fatal: checksum 1, not 2 at byte 61"),
        ("AssertionError((5, 3))", ExitCode.FAILED, "fatal: an assertion does not hold: AssertionError((5, 3))"),
        ("KeyError('x')", ExitCode.FAILED, "fatal: KeyError: 'x'"),
    ],
)
def test_what_is_fatal_is_one_line_and_an_exit_code(error: str, code: ExitCode, line: str) -> None:
    assert (code, [], [line]) == ended(process(f"raise {error}"))


def test_errors_of_several_tasks_are_a_line_each_and_the_gravest_gives_the_code() -> None:
    body = """
async def broken(error):
    raise error
async with asyncio.TaskGroup() as tasks:
    tasks.create_task(broken(Corrupt("bad magic 9")))
    tasks.create_task(broken(ValueError("x")))
"""
    code, _, fatal = ended(process(body))

    assert (ExitCode.CORRUPT, ["fatal: ValueError: x", "fatal: bad magic 9"]) == (code, sorted(fatal))


def test_a_failure_reported_from_elsewhere_ends_it() -> None:
    body = """
asyncio.get_running_loop().call_soon(life.fail, Corrupt("damage in the segment"))
try:
    await life.stopping()
finally:
    print("cleaned")
"""
    assert (ExitCode.CORRUPT, ["cleaned"], ["fatal: damage in the segment"]) == ended(process(body))


def test_a_port_in_use_is_said_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, fatal = ended(process(f"Server().listen('127.0.0.1:{port}')"))

    reason = "Address already in use; an address has one listener: stop the process that has it, or choose another port"
    assert (ExitCode.CANNOT_LISTEN, [f"fatal: cannot listen on 127.0.0.1:{port}: {reason}"]) == (code, fatal)


def test_what_is_closed_at_the_end_has_the_time_of_a_stop_and_is_named_if_it_takes_longer() -> None:
    """One second is the least, and one time for all that are closed."""
    body = """
async def hangs():
    await asyncio.Event().wait()
async def ends():
    print("closed")
life.at_end(hangs)
life.at_end(ends)
life.give(0.2)
"""
    code, told, fatal = ended(process(body))

    assert (ExitCode.FAILED, ["closed"]) == (code, told)
    assert 1 == len(fatal), fatal
    assert fatal[0].endswith("hangs did not end within 1 s (shutdown.graceful.timeout.ms)"), fatal


FATAL_IN_A_CALL = """
import grpc
from kraft.service.heartbeat_pb2_grpc import HeartbeatServicer, HeartbeatStub, add_HeartbeatServicer_to_server
from kraft.service.heartbeat_pb2 import DescribeSessionsRequest

class Servicer(HeartbeatServicer):
    async def DescribeSessions(self, request, context):
        raise AssertionError("planted")

server = Server(on_fatal=life.fail)
life.at_end(server.abort)
server.add("kraft.service.Heartbeat", add_HeartbeatServicer_to_server, Servicer())
port = server.listen("127.0.0.1:0")
await server.start()
caller = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
streams = [HeartbeatStub(caller).BrokerHeartbeats() for _ in range(20)]
asyncio.ensure_future(HeartbeatStub(caller).DescribeSessions(DescribeSessionsRequest()))
await life.stopping()
"""


def test_a_fatal_end_with_calls_under_way_is_an_exit_code_and_no_signal() -> None:
    failed = process(FATAL_IN_A_CALL)
    _, errors = failed.communicate(timeout=240)

    assert (1, 1) == (failed.returncode, errors.count("fatal: "))
    assert "Exception ignored" not in errors


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("OSError(28, 'No space left on device', '/d/state')", "/d/state: No space left on device; make room and "),
        ("PermissionError(13, 'Permission denied', '/d/.lock')", "/d/.lock: Permission denied; this process runs as "),
        ("UnsupportedLevel('metadata.version is at level 4')", "metadata.version is at level 4\n"),
    ],
)
def test_what_an_operator_has_caused_is_one_line_and_no_traceback(error: str, line: str) -> None:
    imports = "from quorate.metadata.faults import UnsupportedLevel"
    failed = process(f"{imports}\nlife.fail({error})\nawait life.stopping()")
    _, errors = failed.communicate(timeout=240)

    assert (1, 1) == (failed.returncode, errors.count("\n"))
    assert errors.startswith(f"fatal: {line}")
