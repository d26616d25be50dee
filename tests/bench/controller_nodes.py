"""Controllers as processes, each beside its quorum node, that begin with a checkpoint of a large cluster."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Final

import grpc

from deploy.local.plan import ClusterPlan, Process, make_plan
from deploy.local.processes import NotReady, Running
from kraft.api.create_topics_pb2 import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.describe_quorum_pb2 import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC, OffsetAndEpoch
from quorate.records import SnapshotFooterRecord, SnapshotHeaderRecord
from quorate.runtime.clients.client import open_channel
from quorate.storage.names import PARTITION_DIRECTORY, checkpoint_file
from quorate.storage.snapshots import SnapshotWriter
from quorate.wire.batch import ControlType
from quorate.wire.codec import encode
from tests.bench.quorum_nodes import QUIET
from tests.bench.synthetic import Shape, values

CHECKPOINT: Final = OffsetAndEpoch(epoch=1, offset=1)
READY_TRIES: Final = 6
"""Times 30 s: on a busy machine six processes take their time to read a million partitions each."""
CALL_S: Final = 10.0
WITHIN_S: Final = 120.0
LOOK_AGAIN_S: Final = 0.005


class Controllers:
    """What runs, and a client that asks one controller, whether it is active or not."""

    def __init__(self, plan: ClusterPlan) -> None:
        self.plan = plan
        self.running = Running(plan)
        self._numbers = count()
        self._channels: dict[str, grpc.aio.Channel] = {}

    def stub(self, process: Process) -> ControllerStub:
        """Its RPCs, over one channel."""
        if process.address not in self._channels:
            self._channels[process.address] = open_channel(process.address)
        return ControllerStub(self._channels[process.address])

    async def spawn(self, *processes: Process) -> None:
        """Start them, and do not wait."""
        for process in processes:
            await self.running.spawn(process, environ=QUIET)

    async def ready(self, *processes: Process) -> None:
        """Wait until each serves: a controller does when it has read all that was written. Raises NotReady."""
        for tries in range(READY_TRIES, 0, -1):
            try:
                await self.running.ready(processes)
                return
            except* NotReady:
                if tries == 1 or not all(map(self.running.is_up, processes)):
                    raise

    async def active(self) -> Process:
        """The controller that is active; one that is up is asked. Raises TimeoutError."""
        topic = DescribeQuorumRequest.TopicData(topic_name=METADATA_TOPIC)
        topic.partitions.add(partition_index=METADATA_PARTITION)
        request = DescribeQuorumRequest(topics=[topic])
        up = next(each for each in self.plan.controllers if self.running.is_up(each))
        async with asyncio.timeout(WITHIN_S):
            while True:
                try:
                    answer: DescribeQuorumResponse = await self.stub(up).DescribeQuorum(request, timeout=CALL_S)
                    return self.plan.controllers[answer.topics[0].partitions[0].leader_id - 1]
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(LOOK_AGAIN_S)
                    await self._channels.pop(up.address).close()  # it would wait before it tries again

    async def create(self, asked: Process, timeout_s: float = WITHIN_S) -> None:
        """Have a topic of one partition created, through any controller; tried until it is. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            while not await self._created(asked):
                pass

    async def close(self) -> None:
        """Close every connection and end every process."""
        for channel in self._channels.values():
            await channel.close()
        await self.running.stop()

    async def _created(self, asked: Process) -> bool:
        topic = CreateTopicsRequest.CreatableTopic(
            name=f"bench-{next(self._numbers)}", num_partitions=1, replication_factor=3
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=int(CALL_S * 1000))
        try:
            answer: CreateTopicsResponse = await self.stub(asked).CreateTopics(request, timeout=CALL_S)
        except grpc.aio.AioRpcError:
            await asyncio.sleep(LOOK_AGAIN_S)
            return False
        assert not answer.topics[0].error_code, answer
        return True


@asynccontextmanager
async def controllers(shape: Shape, *, voters: int = 3, session_timeout_ms: int = 9_000) -> AsyncIterator[Controllers]:
    """Directories that hold such a cluster, on free ports; nothing runs yet. All is gone when the block ends."""
    with tempfile.TemporaryDirectory(prefix="quorate-bench-") as folder:
        directory = Path(folder)
        partitions = [directory / f"node-{number}" / PARTITION_DIRECTORY for number in range(1, voters + 1)]
        write_checkpoint(shape, partitions)  # takes its time, so before there are ports that somebody else could take
        there = Controllers(make_plan(directory, voters=voters, session_timeout_ms=session_timeout_ms))
        assert partitions == [there.plan.log_dir(number) / PARTITION_DIRECTORY for number in range(1, voters + 1)]
        try:
            for node in there.plan.quorum:
                await there.running.format(node)
            yield there
        finally:
            await there.close()


def write_checkpoint(shape: Shape, directories: Sequence[Path]) -> None:
    """A checkpoint of such a cluster, the same file in each directory."""
    for directory in directories:
        directory.mkdir(parents=True, exist_ok=True)
    writer = SnapshotWriter(directories[0], CHECKPOINT, timestamp_ms=0)
    writer.control([(ControlType.SNAPSHOT_HEADER, encode(SnapshotHeaderRecord(), 0))])
    writer.data(values(shape))
    writer.finish(encode(SnapshotFooterRecord(), 0))
    for directory in directories[1:]:
        os.link(checkpoint_file(directories[0], CHECKPOINT), checkpoint_file(directory, CHECKPOINT))
