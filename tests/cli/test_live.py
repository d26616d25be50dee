"""`--bootstrap-controller` names the controller in what it says, and no file that is removed when it ends."""

from __future__ import annotations

import asyncio
import re
import socket
import tempfile
from pathlib import Path

from quorate.metadata.state import ClusterState
from quorate.nouns import OffsetAndEpoch
from tests.cli.directories import Ran, a_history, run, write_checkpoint
from tests.network.test_observer import LOOPBACK, Partition, Script, answer, listening

CHECKPOINT = "00000000000000000007-0000000001.checkpoint"


async def shown(tmp_path: Path, *options: object, command: tuple[str, ...] = ("show",)) -> tuple[Ran, str]:
    """What `image show` says of a controller that has a checkpoint at 7 and one batch after it, and its address."""
    (tmp_path / CHECKPOINT).unlink(missing_ok=True)
    write_checkpoint(tmp_path, ClusterState(), OffsetAndEpoch(epoch=1, offset=7))
    leader = Script(
        answer(end=8, snapshot_id=Partition.SnapshotId(7, 1)),
        answer(a_history()[5], end=8),
        checkpoint=(tmp_path / CHECKPOINT).read_bytes(),
    )
    async with listening(leader) as endpoints:
        where = f"{LOOPBACK}:{endpoints[0][1]}"
        ran = await asyncio.to_thread(run, "image", *command, "--bootstrap-controller", where, *options)
    assert str(Path(tempfile.gettempdir()) / "quorate-") not in ran.out + ran.err
    return ran, where


async def test_an_offset_out_of_reach_is_out_of_the_controllers_reach(tmp_path: Path) -> None:
    late, where = await shown(tmp_path, "--as-of", 9)
    assert (1, f"quorate: {where} ends at offset 8; 9 lies beyond it\n") == (late.code, late.err)

    at_time, _ = await shown(tmp_path, "--as-of", "2123-01-01", "--json")
    assert (0, 8) == (at_time.code, at_time.document["asOfOffset"])

    early, where = await shown(tmp_path, "--as-of", 3)
    assert (1, True) == (early.code, early.err.startswith(f"quorate: {where} begins at offset 7: of what lies before"))


async def test_a_checkpoint_is_given_by_its_name(tmp_path: Path) -> None:
    ran, _ = await shown(tmp_path, "--json")

    assert (0, CHECKPOINT, 8, 8) == (
        ran.code,
        ran.document["checkpoint"],
        ran.document["asOfOffset"],
        ran.document["highWatermark"],
    )


async def test_two_states_of_one_fetch_are_compared(tmp_path: Path) -> None:
    ran, _ = await shown(tmp_path, "--json", command=("diff", "7.."))

    assert (0, 7, 8, []) == (ran.code, *(ran.document[key] for key in ("fromOffset", "toOffset", "rows")))


def test_a_controller_that_is_silent_is_told_with_the_limit(tmp_path: Path) -> None:
    """As behind a firewall that drops, or if TLS is asked of a port in the clear."""
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=300\nsocket.connection.setup.timeout.ms=200\n")
    with socket.create_server((LOOPBACK, 0)) as silent:
        where = f"{LOOPBACK}:{silent.getsockname()[1]}"
        ran = run("log", "dump", "--bootstrap-controller", where, "--command-config", config)

    assert 3 == ran.code
    said = rf"last: {re.escape(where)}: no connection within 200 ms \(socket\.connection\.setup\.timeout\.ms\)\n$"
    assert re.search(said, ran.err), ran.err
