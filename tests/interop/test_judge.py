"""The judge itself: a Kafka release starts where we wrote, goes on, and sees what is damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from deploy.kafka.node import TOOL_TIMEOUT_S, NodeFailed, run_apart
from deploy.kafka.release import POM
from quorate.errors import Corrupt
from quorate.metadata.state import ClusterState
from quorate.nouns import OffsetAndEpoch
from quorate.records import SnapshotFooterRecord, SnapshotHeaderRecord, decode_record, encode_record
from quorate.storage.snapshots import SnapshotWriter
from quorate.wire.batch import ControlType, batches, data_values
from quorate.wire.codec import encode
from tests.interop.kafka.judge import DIRECTORY, dump_log, dumped_batches, metadata_shell, start_controller_on
from tests.interop.kafka.release import absent
from tests.interop.kafka.toolbox import KeptTools

NODE = Path(__file__).parent / "fixtures" / "combined-static" / "node-1"
LOG = NODE / DIRECTORY / "00000000000000000000.log"
WRITTEN_TIMEOUT_S = 300

pytestmark = [pytest.mark.interop, pytest.mark.skipif(absent() is not None, reason=absent() or "")]


def test_a_flipped_byte_is_seen(tmp_path: Path) -> None:
    data = bytearray(LOG.read_bytes())
    data[-10] ^= 1
    damaged = tmp_path / LOG.name
    damaged.write_bytes(data)

    with pytest.raises(AssertionError, match="isvalid: false"):
        dumped_batches(dump_log(damaged))


@pytest.mark.parametrize(
    ("main", "arguments", "status"),
    [
        ("org.apache.kafka.tools.DumpLogSegments", ("--cluster-metadata-decoder", "--files", str(LOG)), 0),
        ("kafka.tools.StorageTool", ("format", "-c", "no cluster id"), 1),
    ],
)
def test_a_tool_says_in_a_jvm_that_is_kept_what_it_says_in_one_of_its_own(
    main: str, arguments: tuple[str, ...], status: int
) -> None:
    kept = KeptTools()
    try:
        alone, first, second = (
            run(main, arguments, pom=POM, timeout_s=TOOL_TIMEOUT_S, stdin=None)
            for run in (run_apart, kept.run, kept.run)
        )
    finally:
        kept.close()

    assert status == alone.status
    assert alone == first == second


def test_a_controller_does_not_start_on_what_cannot_be_replayed(tmp_path: Path) -> None:
    """Else its starting on ours would show nothing: here the checkpoint has a partition of no topic."""
    _, end = replayed()
    source = copied(tmp_path)
    orphans = [value for value in state_values() if type(decode_record(value)).__name__ != "TopicRecord"]
    write_checkpoint(source / DIRECTORY, end, orphans)
    with start_controller_on(source, tmp_path / "node") as node, pytest.raises(NodeFailed, match="ended before"):
        node.wait_ready()


def test_a_controller_goes_on_from_a_checkpoint_that_we_wrote(tmp_path: Path) -> None:
    """All that it has is our checkpoint of a state that we replayed: no log, no quorum-state."""
    state, end = replayed()
    source = copied(tmp_path)
    checkpoint = write_checkpoint(source / DIRECTORY, end, state_values())

    assert [batch.is_control for batch in dumped_batches(dump_log(checkpoint))] == [True, False, True]
    assert sorted(topic.name for topic in state.topics) == names_in(checkpoint)
    with start_controller_on(source, tmp_path / "node") as node:
        node.wait_ready()
        log = tmp_path / "node" / "data" / DIRECTORY / f"{end.offset:020}.log"
        node.wait_until(lambda: has_data(log), "writing after the checkpoint", WRITTEN_TIMEOUT_S)
        node.stop()
    first, *rest = dumped_batches(dump_log(log))

    assert (first.base_offset, first.epoch, first.is_control) == (end.offset, end.epoch + 1, True)
    assert rest


def names_in(checkpoint: Path) -> list[str]:
    """The topics as Kafka's metadata shell lists them."""
    return metadata_shell(checkpoint, "ls", "/image/topics/byName").split()


def replayed() -> tuple[ClusterState, OffsetAndEpoch]:
    """The state of the whole log of a fixture, and where that ends."""
    state, end = ClusterState(), OffsetAndEpoch(offset=0, epoch=0)
    data = LOG.read_bytes()
    for position, header in batches(data):
        if not header.is_control:
            for offset, value in enumerate(data_values(data, position, header), header.base_offset):
                state.apply(decode_record(value), offset)
                state.settle()
        end = OffsetAndEpoch(offset=header.next_offset, epoch=header.epoch)
    return state, end


def state_values() -> list[bytes]:
    state, _ = replayed()
    return [encode_record(record, version) for record, version in state.records()]


def copied(tmp_path: Path) -> Path:
    """A directory with the fixture's meta.properties and an empty partition."""
    source = tmp_path / "source"
    (source / DIRECTORY).mkdir(parents=True)
    shutil.copy(NODE / "meta.properties", source)
    return source


def write_checkpoint(directory: Path, end: OffsetAndEpoch, values: list[bytes]) -> Path:
    writer = SnapshotWriter(directory, end, timestamp_ms=1)
    writer.control([(ControlType.SNAPSHOT_HEADER, encode(SnapshotHeaderRecord(), 0))])
    writer.data(values)
    writer.finish(encode(SnapshotFooterRecord(), 0))
    (written,) = directory.glob("*.checkpoint")
    return written


def has_data(log: Path) -> bool:
    """Whether a data batch follows the leader's first one, and is written whole."""
    try:
        return log.exists() and any(not header.is_control for _, header in batches(log.read_bytes()))
    except Corrupt:
        return False
