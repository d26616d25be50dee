"""What a running quorum has committed, read over gRPC from real processes, without Spark."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from deploy.local.plan import Process
from deploy.local.ports import free_ports
from deploy.local.processes import Running
from kraft.service.quorum_pb2 import CreateSnapshotRequest
from kraft.service.quorum_pb2_grpc import RaftClientStub
from quorate.nouns import OffsetAndEpoch
from quorate.pipeline.grpc_nodes import GrpcNodes
from quorate.pipeline.live import AnotherCluster, QuorumReader
from quorate.pipeline.log_files import find, fingerprint, parts
from quorate.pipeline.nodes import Unanswered
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.storage.names import LOG, PARTITION_DIRECTORY, checkpoint_file, segment_file
from quorate.wire.batch import batches
from tests.bench.quorum_nodes import QUIET, Writer, caught_up, quorum, value

pytestmark = pytest.mark.timeout(1_800)

T = TypeVar("T")

PATIENT_S = 60.0
BRIEF_S = 0.5
OTHER = "4L6g3nShT-eMCtK--X86sw"


async def snapshot(node: Process, end: OffsetAndEpoch) -> None:
    """The controller beside `node` makes a snapshot."""
    pieces = [
        CreateSnapshotRequest(end_offset=end.offset, epoch=end.epoch, values=[value()] * 20),
        CreateSnapshotRequest(),
    ]
    async with open_channel(node.address) as channel:
        await RaftClientStub(channel).CreateSnapshot(iter(pieces), timeout=PATIENT_S)


async def wiped(running: Running, node: Process) -> None:
    """The node comes back with an empty disk."""
    await running.kill(node)
    shutil.rmtree(node.settings["metadata.log.dir"])
    await running.format(node)
    await running.spawn(node, environ=QUIET)
    await running.ready([node])


def log_of(node: Process) -> bytes:
    """The bytes of a node's only segment."""
    return segment_file(Path(node.settings["metadata.log.dir"]) / PARTITION_DIRECTORY, 0, LOG).read_bytes()


async def asked(node: Process, question: Callable[[QuorumReader], T], cluster_id: str | None = None) -> T:
    """What is answered by a node alone."""

    def ask() -> T:
        with closing(QuorumReader(GrpcNodes((node.address,)), cluster_id=cluster_id, retry_s=PATIENT_S)) as found:
            return question(found)

    return await asyncio.to_thread(ask)


async def test_a_follower_gives_what_is_committed_and_a_snapshot_as_it_lies_there() -> None:
    async with quorum() as (plan, _), Writer(plan.quorum) as writer:
        await writer.active()
        for count in (1, 3, 1, 7, 2):
            await writer.append(value(), 1, may_join=False, records=count)
        await writer.until(lambda: writer.committed >= writer.next_offset)
        (follower, _) = [node for node in plan.quorum if node is not writer.leader]
        await caught_up(follower, writer.committed)
        ends = [(header.base_offset, header.next_offset) for _, header in batches(log_of(follower))]
        whole = await asked(follower, lambda node: node.records(0))
        each = {
            offset: await asked(follower, lambda node, at=offset: node.records(at)) for offset in range(ends[-1][1])
        }
        found = {offset: next(batches(answer.records))[1] for offset, answer in each.items()}
        at_end = await asked(follower, lambda node: node.batch_end(writer.committed - 1))

        assert (writer.committed, log_of(follower)) == (whole.high_watermark, whole.records)
        assert {at: span for span in ends for at in range(*span)} == {
            at: (header.base_offset, header.next_offset) for at, header in found.items()
        }
        assert OffsetAndEpoch(offset=writer.committed, epoch=writer.epoch) == at_end

        end = OffsetAndEpoch(offset=writer.committed, epoch=writer.epoch)
        await snapshot(follower, end)
        path = checkpoint_file(Path(follower.settings["metadata.log.dir"]) / PARTITION_DIRECTORY, end)
        data = await asked(follower, lambda node: node.snapshot(end))
        (part,) = parts(find([str(path)])[0])

        assert end == (await asked(follower, lambda node: node.records(0))).snapshot
        assert data == path.read_bytes()
        assert part.fingerprint == fingerprint(data)
        assert None is await asked(follower, lambda node: node.snapshot(OffsetAndEpoch(offset=1, epoch=1)))
        # The offsets that the log still has are read from it; an empty replica would get the snapshot.
        assert each[5].records == (await asked(follower, lambda node: node.records(5))).records


async def test_no_more_is_fetched_than_is_asked_for() -> None:
    async with quorum(voters=1) as (plan, _), Writer(plan.quorum) as writer:
        await writer.active()
        for count in (1, 3, 1, 7, 2):
            await writer.append(value(), 1, may_join=False, records=count)
        await writer.until(lambda: writer.committed >= writer.next_offset)
        (node,) = plan.quorum
        whole = log_of(node)
        headers = [header for _, header in batches(whole)]
        sizes = [header.size for header in headers]
        some = await asked(node, lambda found: found.records(0, bytes_max=sum(sizes[:3])))
        least = await asked(node, lambda found: found.records(headers[3].base_offset, bytes_max=1))

        assert whole[: sum(sizes[:3])] == some.records
        # A batch is given whole, or nobody would ever come past it.
        assert whole[sum(sizes[:3]) : sum(sizes[:4])] == least.records


async def test_an_observer_hands_the_log_on_from_whichever_node_can_answer() -> None:
    async with quorum() as (plan, running), Writer(plan.quorum) as writer:
        observer = plan.observer
        await running.spawn(observer, environ=QUIET)
        await writer.active()
        for count in (1, 3, 7):
            await writer.append(value(), 1, may_join=False, records=count)
        await writer.until(lambda: writer.committed >= writer.next_offset)
        await running.ready([observer])
        with pytest.raises(Unanswered, match=f"^endpoint {observer.address} serves no kraft.service.Quorum$"):
            await asked(observer, lambda found: found.records(0))

        await running.kill(observer)
        observer.settings["observer.log.relay"] = "true"
        await running.spawn(observer, environ=QUIET)
        await running.ready([observer])
        assert writer.leader is not None
        (follower, other) = [node for node in plan.quorum if node is not writer.leader]
        await caught_up(follower, writer.committed)
        whole = await asked(observer, lambda found: (found.cluster_id, found.records(0)))
        end = OffsetAndEpoch(offset=writer.committed, epoch=writer.epoch)

        assert (plan.cluster_id, log_of(follower)) == (whole[0], whole[1].records)
        assert end == await asked(observer, lambda found: found.batch_end(end.offset - 1))
        with pytest.raises(AnotherCluster, match=f"^endpoint {observer.address} is of cluster {plan.cluster_id}, not"):
            await asked(observer, lambda found: found.records(0), cluster_id="other")

        # Only one node has the snapshot, and one is gone.
        await snapshot(follower, end)
        await running.kill(other)
        path = checkpoint_file(Path(follower.settings["metadata.log.dir"]) / PARTITION_DIRECTORY, end)
        assert path.read_bytes() == await asked(observer, lambda found: found.snapshot(end))
        assert None is await asked(observer, lambda found: found.snapshot(OffsetAndEpoch(offset=1, epoch=1)))
        for node in (writer.leader, follower):
            await running.kill(node)

        def ask() -> None:
            with closing(QuorumReader(GrpcNodes((observer.address,)), retry_s=BRIEF_S)):
                pass

        with pytest.raises(Unanswered, match=f"^endpoint {observer.address}: UNAVAILABLE: no quorum node answers; "):
            await asyncio.to_thread(ask)


async def test_endpoints_that_cannot_answer_are_named() -> None:
    async with quorum(voters=1) as (plan, running), Writer(plan.quorum) as writer:
        await writer.active()
        (node,) = plan.quorum
        dead = f"127.0.0.1:{free_ports(1)[0]}"
        with pytest.raises(Unanswered, match=rf"^endpoint {dead}: UNAVAILABLE: .*; \d+ attempts in 0.5 s$"):
            QuorumReader(GrpcNodes((dead,)), retry_s=BRIEF_S)
        with pytest.raises(
            AnotherCluster, match=f"^endpoint {node.address} is of cluster {plan.cluster_id}, not of other$"
        ):
            await asked(node, lambda found: found.records(0), cluster_id="other")

        def over_the_dead_one() -> bytes:
            with closing(QuorumReader(GrpcNodes((dead, node.address)), retry_s=PATIENT_S)) as found:
                return found.records(0).records

        assert log_of(node) == await asyncio.to_thread(over_the_dead_one)
        await running.kill(node)
        with pytest.raises(Unanswered, match=f"^endpoint {node.address}: UNAVAILABLE"):
            QuorumReader(GrpcNodes((node.address,)), retry_s=BRIEF_S)


async def test_a_service_that_is_no_quorum_is_refused_at_once() -> None:
    server = Server()
    port = server.listen("127.0.0.1:0")
    await server.start()
    try:
        with pytest.raises(Unanswered, match=f"^endpoint 127.0.0.1:{port} serves no kraft.service.Quorum$"):
            await asyncio.to_thread(QuorumReader, GrpcNodes((f"127.0.0.1:{port}",)), retry_s=PATIENT_S)
    finally:
        await server.stop(grace_s=0)


async def test_a_stream_starts_at_the_present_end_and_a_batch_within_its_bounds() -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from services.pipeline.source.live import LiveReader
    from services.pipeline.source.live_stream import LiveStreamReader

    async with quorum(voters=1) as (plan, running):
        del running
        (node,) = plan.quorum
        options = {"endpoints": node.address, "retryMs": str(int(PATIENT_S * 1000))}

        def rows(reader: LiveReader | LiveStreamReader, partitions: Sequence[object]) -> list[int]:
            return [
                offset for each in partitions for found in reader.read(each) for offset in found["offset"].to_pylist()
            ]

        async with Writer(plan.quorum) as writer:

            async def append(count: int) -> int:
                await writer.append(value(), count, may_join=False)
                await writer.until(lambda: writer.committed >= writer.next_offset)
                return writer.committed

            await writer.active()
            before = await append(20)
            stream = LiveStreamReader({**options, "startingOffsets": "latest"}, ["offset"])
            start = await asyncio.to_thread(stream.initialOffset)
            after = await append(20)
            end = await asyncio.to_thread(stream.latestOffset, start, ReadAllAvailable())
            came = await asyncio.to_thread(lambda: rows(stream, stream.partitions(start, end)))
            bounds = {
                "startingOffsets": json.dumps({plan.cluster_id: 7}),
                "endingOffsets": f'{{"{plan.cluster_id}": 11}}',
            }
            batch = LiveReader({**options, **bounds}, ["offset"])
            found = await asyncio.to_thread(lambda: rows(batch, batch.partitions()))

        assert list(range(before, after)) == came
        assert [7, 8, 9, 10] == found


async def test_a_log_that_is_another_one_now_is_refused() -> None:
    """The node is wiped: first under its old cluster id, then under another one."""
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from quorate.pipeline.tail import EpochWentBack
    from services.pipeline.source.live_stream import LiveStreamReader

    async with quorum(voters=1) as (plan, running):
        (node,) = plan.quorum

        async def latest(start: dict[str, dict[str, object]], retry_ms: int = 30_000) -> dict[str, dict[str, object]]:
            stream = LiveStreamReader({"endpoints": node.address, "retryMs": str(retry_ms)}, ["offset"])
            return await asyncio.to_thread(stream.latestOffset, start, ReadAllAvailable())

        async with Writer(plan.quorum) as writer:
            await writer.active()
            await writer.append(value(), 50, may_join=False)
            await writer.until(lambda: writer.committed >= writer.next_offset)
            given = await latest({})

            assert {plan.cluster_id: {"offset": writer.committed, "epoch": writer.epoch, "snapshot": None}} == given
            assert given == await latest(given)
            later = {plan.cluster_id: given[plan.cluster_id] | {"epoch": 99}}
            with pytest.raises(
                EpochWentBack, match=rf"given out of epoch 99, .* in epoch {writer.epoch}, behind epoch 99"
            ):
                await latest(later, retry_ms=500)
        await wiped(running, node)
        with pytest.raises(
            EpochWentBack, match=rf"cluster {plan.cluster_id}: epoch went back: .* ends epoch \d+ at offset"
        ):
            await latest(given)
        running.plan = replace(plan, cluster_id=OTHER)
        await wiped(running, node)
        with pytest.raises(ValueError, match=rf"is of cluster {OTHER}, and {plan.cluster_id} was read"):
            await latest(given)
