"""`quorate log verify` at every moment of a node's life: what its end leaves before any system call is sound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import pytest

from quorate.cli.verify import verify_path
from quorate.metadata.state import ClusterState
from quorate.nouns import Offset, OffsetAndEpoch
from quorate.raft.ready import SnapshotChunk
from quorate.raft.roles import ElectionState
from quorate.raft.voters import VoterSet
from quorate.records import ConfigRecord, NoOpRecord, decode_record, encode_record
from quorate.storage.meta_properties import MetaProperties, write_meta_properties
from quorate.storage.names import INDEX, PARTITION_DIRECTORY, TIME_INDEX, checkpoint_file
from quorate.storage.snapshots import SnapshotReader
from quorate.wire.batch import data_values, read_header
from services.quorum.checkpoints import Checkpoints, CheckpointVoters
from services.quorum.disk import Disk
from tests.cli.directories import CLUSTER_ID, DIRECTORY_ID, START_MS, batch, leader_change
from tests.storage.virtual_disk import VirtualDisk

STEPS: Final = (
    *("append",) * 12,
    *("elect",) * 2,
    *("snapshot",) * 5,
    *("clean",) * 4,
    *("flush", "truncate", "install", "restart", "restart", "roll"),
)


class Life:
    """One node's disk at work, and the log that a leader would give it. `moments` are looked at, `steps` were done."""

    def __init__(self, home: Path, random: Random) -> None:
        self.home, self.random = home, random
        self.directory = home / "node"
        self.partition = self.directory / PARTITION_DIRECTORY
        self.partition.mkdir(parents=True)
        write_meta_properties(
            self.directory, MetaProperties(cluster_id=CLUSTER_ID, node_id=1, directory_id=DIRECTORY_ID)
        )
        self.epoch = 1
        self.history: list[bytes] = []
        self.snapshots: list[OffsetAndEpoch] = []
        self.moments = self.cuts = 0
        self.is_looking = False
        self.step = "open"
        self.steps: dict[str, int] = {}

    def run(self, count: int) -> None:
        self.system = VirtualDisk(self.partition, ignored=(INDEX, TIME_INDEX))
        with self.system.watched(self.look):
            self.disk = self.opened()
            self.elect()
            for _ in range(count):
                self.step = self.random.choice(STEPS)
                if getattr(self, self.step)():
                    self.steps[self.step] = self.steps.get(self.step, 0) + 1
            self.disk.close()

    def opened(self) -> Disk:
        return Disk(self.directory, static=VoterSet(()), segment_bytes=1500, segment_ms=1 << 40)

    # What is looked at.

    def look(self, call: str) -> None:
        """A kill leaves all that was written; a power cut may take what was not synced, so it is looked at, too."""
        if self.is_looking:
            return
        self.is_looking = True
        self.moments += 1
        assert set() == self.failing(self.directory), (self.step, call, self.reasons(self.directory))
        if self.random.random() < 0.1:
            self.cut(call)
        self.is_looking = False

    def cut(self, call: str) -> None:
        """A power cut may tear the end of what was not flushed, and nothing else."""
        self.cuts += 1
        left = self.home / f"cut-{self.cuts}"
        (left / PARTITION_DIRECTORY).mkdir(parents=True)
        for name, data in self.system.after_power_cut(self.random).items():
            (left / PARTITION_DIRECTORY / name).write_bytes(data)
        assert {"torn tail"} >= self.failing(left / PARTITION_DIRECTORY), (self.step, call, self.reasons(left))
        Disk(left, static=VoterSet(()), segment_bytes=1500, segment_ms=1 << 40).close()
        assert set() == self.failing(left / PARTITION_DIRECTORY), (self.step, call, self.reasons(left))

    def failing(self, path: Path) -> set[str]:
        return {finding.severity for finding in verify_path(path).findings if finding.fails}

    def reasons(self, path: Path) -> list[tuple[str, str]]:
        directory = path / PARTITION_DIRECTORY
        return [(finding.path.name, finding.reason) for finding in verify_path(directory).findings if finding.fails]

    # What is done.

    def append(self) -> bool:
        end = self.end
        records = [(ConfigRecord(2, "foo", "retention.ms", str(end)), 0), (NoOpRecord(), 0)]
        self.write(batch(self.epoch, end, *records[: self.random.randint(1, 2)]))
        return True

    def elect(self) -> bool:
        self.epoch += 1
        self.disk.persist(ElectionState(epoch=self.epoch, leader_id=1, voted=None))
        self.write(leader_change(self.epoch, self.end))
        return True

    def write(self, data: bytes) -> None:
        self.history.append(data)
        self.disk.append(data)

    def flush(self) -> bool:
        begun = self.disk.begin_flush()
        if begun is not None:
            begun.wait()
            self.disk.end_flush(begun)
        return begun is not None

    def snapshot(self) -> bool:
        """Of what is committed, so flushed, at any end of a batch that is later than the last one."""
        self.flush()
        ends = [end for end in map(end_of, self.history) if max(self.start, self.last_snapshot) < end]
        if not ends:
            return False
        snapshot = self.id_at(self.random.choice(ends))
        self.disk.add_snapshot(snapshot, self.written(self.disk, snapshot))
        self.snapshots.append(snapshot)
        return True

    def clean(self) -> bool:
        """The oldest snapshot goes, and the log starts at the next one, often in the middle of a segment."""
        if len(self.snapshots) < 2:
            return False
        self.snapshots.pop(0)
        retired = self.disk.start_at(self.snapshots[0])
        if self.random.random() < 0.5:
            retired.remove()
        return True

    def roll(self) -> bool:
        self.disk.log.end_segment()
        return True

    def truncate(self) -> bool:
        """A new leader has another end of the log, perhaps of several epochs."""
        ends = [end for end in map(end_of, self.history) if end >= max(self.start, self.last_snapshot)]
        if not ends:
            return False
        to = self.random.choice(ends)
        self.disk.truncate_to(to)
        self.history = [data for data in self.history if end_of(data) <= to]
        self.elect()
        return True

    def install(self) -> bool:
        """A leader is far ahead: its snapshot is downloaded in chunks, and replaces the log."""
        self.epoch += 1
        self.disk.persist(ElectionState(epoch=self.epoch, leader_id=2, voted=None))
        self.history += [leader_change(self.epoch, self.end)]
        self.history += [batch(self.epoch, self.end, (ConfigRecord(2, "foo", "retention.ms", "ahead"), 0))]
        snapshot = self.id_at(self.end)
        data = self.made_elsewhere(snapshot)
        half = len(data) // 2
        self.disk.store_chunk(SnapshotChunk(snapshot_id=snapshot, position=0, data=data[:half], is_last=False))
        self.disk.store_chunk(SnapshotChunk(snapshot_id=snapshot, position=half, data=data[half:], is_last=True))
        self.disk.complete_download(snapshot)
        self.disk.install(snapshot)
        self.snapshots = [snapshot]
        return True

    def restart(self) -> bool:
        if self.random.random() < 0.5:
            self.disk.close()
        else:
            self.disk.log.abandon()
        self.disk = self.opened()
        return True

    # What is known of it.

    @property
    def end(self) -> Offset:
        return end_of(self.history[-1]) if self.history else 0

    @property
    def start(self) -> Offset:
        return self.disk.log.start

    @property
    def last_snapshot(self) -> Offset:
        return self.snapshots[-1].offset if self.snapshots else 0

    def id_at(self, offset: Offset) -> OffsetAndEpoch:
        epoch = next(
            read_header(data).epoch for data in reversed(self.history) if read_header(data).base_offset < offset
        )
        return OffsetAndEpoch(epoch=epoch, offset=offset)

    def written(self, disk: Disk | Checkpoints, snapshot: OffsetAndEpoch) -> SnapshotReader:
        begun = (
            disk.begin_snapshot(snapshot, START_MS)
            if isinstance(disk, Disk)
            else disk.begin(snapshot, START_MS, CheckpointVoters())
        )
        begun.write([encode_record(*each) for each in state_of(self.history, snapshot.offset).records()])
        return begun.finish()

    def made_elsewhere(self, snapshot: OffsetAndEpoch) -> bytes:
        other = self.home / "leader"
        other.mkdir(exist_ok=True)
        self.written(Checkpoints(other), snapshot).close()
        return checkpoint_file(other, snapshot).read_bytes()


def end_of(data: bytes) -> Offset:
    return read_header(data).next_offset


def state_of(history: Sequence[bytes], offset: Offset) -> ClusterState:
    state = ClusterState()
    for data in history:
        header = read_header(data)
        if not header.is_control and header.base_offset < offset:
            for at, value in enumerate(data_values(data), header.base_offset):
                state.apply(decode_record(value), at)
    return state


@pytest.mark.parametrize("seed", range(3))
def test_every_moment_of_a_nodes_life_is_sound(tmp_path: Path, seed: int) -> None:
    life = Life(tmp_path, Random(seed))

    life.run(60)

    assert life.moments > 200
    assert {"clean", "restart", "snapshot"} <= set(life.steps)
