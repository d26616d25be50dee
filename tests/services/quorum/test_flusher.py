"""A disk that hangs, or fails in a way that nobody has thought of: the node's process still ends, and says why."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from deploy.local.ports import free_ports
from kraft.service.quorum_pb2 import CreateSnapshotRequest, FindQuorumRequest
from kraft.service.quorum_pb2_grpc import QuorumStub, RaftClientStub
from quorate.cli.formatting import FormatOptions
from quorate.cli.storage import format_node
from quorate.runtime.clients.client import open_channel
from quorate.runtime.event_loop.loop import ExitCode
from quorate.storage.disk_log import Flush
from services.quorum.flusher import Flusher
from tests.services.nodes import RECORD
from tests.services.scripted import WITHIN_S

PROGRAM = """
import os, threading
from quorate.runtime.event_loop.loop import run
from quorate.storage.failpoints import set_failpoint
from services.quorum.__main__ import main

def hang():
    if threading.current_thread() is not threading.main_thread():
        print("hangs", flush=True)
        threading.Event().wait()

async def begun(life):
    set_failpoint(os.environ["HANGS_AT"], hang)
    await main(life)

raise SystemExit(run(begun, stop_timeout_s=3.0))
"""
"""A quorum node whose disk hangs the first time that it comes to a place, and which is to stop within three seconds."""


def node(directory: Path, port: int, hangs_at: str) -> subprocess.Popen[str]:
    """The only voter of its cluster: it appends, and so flushes, as soon as it leads."""
    log_dir, config = directory / "log", directory / "node.properties"
    log_dir.mkdir()
    settings = {
        "process.roles": "controller",
        "node.id": 1,
        "log.dirs": log_dir,
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
    }
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    format_node(config, FormatOptions(cluster_id="MkU3OEVBNTcwNTJENDM2Qk"), output="text")
    own = ("node.id", "listeners", "controller.quorum.voters")
    arguments = [part for key in own for part in ("--set", f"{key}={settings[key]}")]
    arguments += ["--set", f"metadata.log.dir={log_dir}"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("QUORATE_", "OTEL_"))}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environ, "HANGS_AT": hangs_at},
    )


def test_a_node_whose_disk_hangs_is_cut_off_by_the_stop_timeout(tmp_path: Path) -> None:
    process = node(tmp_path, free_ports(1)[0], "log.before_fsync")
    try:
        assert process.stdout is not None
        assert "hangs\n" == process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WITHIN_S)
    finally:
        process.kill()
        process.wait()
    fatal = [line for line in err.splitlines() if line.startswith("fatal: ")]

    assert ["fatal: TimeoutError: did not stop within 3 s of being asked to"] == fatal
    assert ExitCode.FAILED == process.returncode


async def test_a_node_whose_disk_hangs_in_a_snapshot_still_ends(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    process = node(tmp_path, port, "snapshot.before_freeze")
    try:
        async with asyncio.timeout(WITHIN_S), open_channel(f"127.0.0.1:{port}") as channel:
            stub = QuorumStub(channel)
            while not (found := await stub.FindQuorum(FindQuorumRequest(), wait_for_ready=True)).high_watermark:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            whole = [
                CreateSnapshotRequest(end_offset=found.high_watermark, epoch=found.leader_epoch, values=[RECORD]),
                CreateSnapshotRequest(),
            ]
            call = RaftClientStub(channel).CreateSnapshot(iter(whole))
            assert process.stdout is not None
            assert "hangs\n" == await asyncio.to_thread(process.stdout.readline)
            process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(process.wait)
            call.cancel()
    finally:
        process.kill()
        _, err = process.communicate()

    assert ExitCode.STOPPED == process.returncode, err


class Scripted:
    """A flush that does what the test says."""

    def __init__(self, wait: Callable[[], None]) -> None:
        self.wait = wait


def raising(error: Exception) -> Scripted:
    def wait() -> None:
        raise error

    return Scripted(wait)


async def told_of(*flushes: Scripted) -> list[Exception | None]:
    """What a flusher tells of each, until it has stopped."""
    flusher, told = Flusher(), list[Exception | None]()
    flusher.start()
    for flush in flushes:
        flusher.wait_for(cast("Flush", flush), told.append)
    flusher.stop()
    await flusher.stopped()
    return told


async def test_any_error_of_a_flush_is_told_and_the_next_flush_is_waited_for() -> None:
    disks, ours = OSError(5, "Input/output error"), ValueError("of our own")

    assert [disks, ours, None] == await told_of(raising(disks), raising(ours), Scripted(lambda: None))


async def test_who_waits_for_a_hanging_disk_may_be_cancelled_and_the_loop_goes_on() -> None:
    released, flusher = threading.Event(), Flusher()

    def hang() -> None:
        released.wait(WITHIN_S)

    flusher.start()
    flusher.wait_for(cast("Flush", Scripted(hang)), lambda _: None)
    flusher.stop()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await flusher.stopped()
    released.set()
    await flusher.stopped()
