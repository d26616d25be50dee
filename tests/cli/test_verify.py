"""`quorate log verify`: what Kafka and we leave is sound; what is changed in it is found; nothing is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraft import Message
from quorate.cli.verify import verify_path
from quorate.cli.verify_log import LogProblem
from quorate.metadata.state import ClusterState
from quorate.nouns import OffsetAndEpoch
from quorate.records import (
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    RemoveTopicRecord,
    UnknownRecord,
    decode_record,
    encode_record,
)
from quorate.storage.disk_log import DiskLog
from quorate.storage.meta_properties import read_meta_properties, write_meta_properties
from quorate.storage.names import DURABLE_MARK, LEADER_EPOCHS, PARTITION_METADATA, QUORUM_STATE
from quorate.storage.snapshots import SnapshotReader
from quorate.wire.batch import data_batch, data_values, read_header
from tests.cli.directories import (
    CLUSTER_ID,
    END_OFFSET,
    KAFKA_NODES,
    LOG_NAME,
    START_MS,
    TOPIC_ID,
    a_history,
    batch,
    contents,
    flip,
    leader_change,
    run,
    write_checkpoint,
    write_log,
)

SLOW_OR_SHARED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
ROUNDS = settings(max_examples=60, deadline=None, suppress_health_check=SLOW_OR_SHARED)
AT_OFFSET_7 = "00000000000000000007-0000000001.checkpoint"


def state_at(offset: int) -> ClusterState:
    """What the records of the history below an offset amount to."""
    state = ClusterState()
    for data in a_history():
        header = read_header(data)
        if not header.is_control and header.base_offset < offset:
            for at, value in enumerate(data_values(data), header.base_offset):
                state.apply(decode_record(value), at)
    return state


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log directory with two epochs, a checkpoint at the end of the first one, and everything beside."""
    partition = write_log(tmp_path / "data", a_history())
    write_checkpoint(partition, state_at(7), OffsetAndEpoch(epoch=1, offset=7))
    return tmp_path / "data"


@pytest.fixture
def partition(directory: Path) -> Path:
    return directory / "__cluster_metadata-0"


def failing(path: Path) -> list[LogProblem]:
    return [finding for finding in verify_path(path).findings if finding.fails]


@pytest.mark.parametrize("node", KAFKA_NODES, ids=lambda path: "/".join(path.parts[-2:]))
def test_what_kafka_leaves_is_sound(node: Path) -> None:
    """Among them a node that was killed, one that began with a checkpoint, and checkpoints of several logs."""
    report = verify_path(node)

    assert [] == [finding for finding in report.findings if finding.fails]
    assert report.end is not None
    assert report.end > 0


def test_what_we_leave_is_sound_and_is_not_touched(directory: Path) -> None:
    before = contents(directory)

    ran = run("log", "verify", directory, "--cluster-id", CLUSTER_ID)

    assert (0, "") == (ran.code, ran.err)
    assert f"{directory}: sound (6 files; cluster {CLUSTER_ID}, node 1; offsets 0 to 11, last epoch 2)\n" == ran.out
    assert before == contents(directory)


@ROUNDS
@given(data=st.data())
def test_any_byte_flipped_in_our_log_is_found(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    directory = tmp_path_factory.mktemp("flipped")
    path = write_log(directory, a_history()) / LOG_NAME
    flip(path, data.draw(st.integers(0, path.stat().st_size - 1)), data.draw(st.integers(1, 255)))

    assert failing(directory)
    assert 1 == run("log", "verify", directory).code


@ROUNDS
@given(data=st.data())
def test_any_byte_flipped_in_a_log_of_kafka_is_found(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Kafka's logs have no durable mark: at their end it is called a torn tail."""
    node = data.draw(st.sampled_from(KAFKA_NODES))
    directory = tmp_path_factory.mktemp("flipped") / "node"
    shutil.copytree(node, directory)
    path = data.draw(st.sampled_from(sorted(directory.rglob("0*.log"))))
    flip(path, data.draw(st.integers(0, path.stat().st_size - 1)), data.draw(st.integers(1, 255)))

    assert {"damage", "torn tail"} >= {finding.severity for finding in failing(directory)} > set()


def test_every_byte_of_every_leader_epoch_is_guarded(tmp_path: Path) -> None:
    """The four bytes that no checksum covers, in each batch."""
    path = write_log(tmp_path, a_history()) / LOG_NAME
    whole, position = path.read_bytes(), 0
    for data in a_history():
        for at in range(position + 12, position + 16):
            flip(path, at, 1)

            assert failing(tmp_path), at
            path.write_bytes(whole)
        position += len(data)


@ROUNDS
@given(data=st.data())
def test_a_log_cut_anywhere_is_found(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Between two batches too: the durable mark knows how far it went."""
    directory = tmp_path_factory.mktemp("cut")
    path = write_log(directory, a_history()) / LOG_NAME
    path.write_bytes(path.read_bytes()[: data.draw(st.integers(0, path.stat().st_size - 1))])

    assert failing(directory)


def test_a_torn_tail_is_told_from_damage(directory: Path, partition: Path) -> None:
    """Without the mark (or with an old one) the end was never acknowledged; in the middle it was."""
    (partition / DURABLE_MARK).unlink()
    path = partition / LOG_NAME
    whole, last = path.read_bytes(), len(a_history()[-1])
    position = len(whole) - last

    path.write_bytes(whole[:-1])
    (torn,) = failing(directory)
    assert ("torn tail", path, position, 9) == (torn.severity, torn.path, torn.position, torn.offset)

    path.write_bytes(whole)
    flip(path, 150)
    (damage, *_) = failing(directory)
    assert ("damage", path, 91, 1) == (damage.severity, damage.path, damage.position, damage.offset)
    assert "a sound batch at offset 3 follows" in damage.reason


def rewrite(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        path.chmod(0o644)
        path.write_bytes(change(path.read_bytes()))

    return apply


DAMAGED = [
    # file, what is done to it, what is said of it
    (AT_OFFSET_7, rewrite(lambda data: data[:-75]), "no SnapshotFooter"),
    (AT_OFFSET_7, rewrite(lambda data: data[:-10]), "batch of 75 bytes, 65 are left"),
    (AT_OFFSET_7, rewrite(lambda data: data[83:]), "batch at offset 1 of epoch 1, where 0 of 1 follows"),
    (AT_OFFSET_7, rewrite(lambda _: b""), "no bytes"),
    (AT_OFFSET_7, rewrite(lambda data: data[:15] + b"\x09" + data[16:]), "of epoch 9, where 0 of 1 follows"),
    (
        AT_OFFSET_7,
        rewrite(lambda data: data[:90] + b"\x09" + data[91:]),
        "batch at offset 9 of epoch 1, where 1 of 1 follows",
    ),
    ("../meta.properties", rewrite(lambda data: data.replace(b"version=1", b"version=7")), "its last line is"),
    ("../meta.properties", rewrite(lambda _: b"version=7\nnode.id=1\ncluster.id=x\n"), "version is 7"),
    ("../meta.properties", rewrite(lambda _: b"version=1\nnode.id=1\n"), "cluster.id is missing"),
    (QUORUM_STATE, rewrite(lambda data: data[:-5]), "not a quorum-state"),
    (LEADER_EPOCHS, rewrite(lambda data: data.replace(b"2 7", b"2 x")), "not a leader-epoch-checkpoint"),
    (LEADER_EPOCHS, rewrite(lambda data: data.replace(b"0\n2\n", b"0\n5\n")), "'5' entries announced, 2 there"),
    (
        LEADER_EPOCHS,
        rewrite(lambda data: data.replace(b"0\n2\n1 0", b"0\n3\n1 0\n5 9")),
        "epochs and their start offsets rise",
    ),
    (PARTITION_METADATA, rewrite(lambda data: data.replace(b"AAQ", b"AAg")), "is not the metadata topic's"),
    (
        "00000000000000000000.index",
        rewrite(lambda _: b"\0\0\0\x04\0\0\0\x05"),
        "points to byte 5, where no batch begins",
    ),
    ("00000000000000000000.index", rewrite(lambda _: b"\0\0\0\x40\0\0\0\x5b"), "beyond the segment, which ends at 11"),
    ("00000000000000000000.index", rewrite(lambda _: b"\0\0\0\x04\0"), "5 bytes are no whole entries of 8"),
    (
        "00000000000000000000.timeindex",
        rewrite(lambda _: b"\0" * 7 + b"\x05\0\0\0\x04"),
        "timestamp 5 is reached at offset 4",
    ),
]


@pytest.mark.parametrize(
    ("name", "change", "words"), DAMAGED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_damage_in_any_file_is_found(
    directory: Path, partition: Path, name: str, change: Callable[[Path], None], words: str
) -> None:
    path = partition / name
    change(path)
    before = contents(directory)

    ran = run("log", "verify", directory, "--json")

    assert 1 == ran.code
    findings = [each for each in ran.document["findings"] if each["severity"] == "damage"]
    assert [True] == [words in each["reason"] for each in findings][:1], findings
    assert path.resolve() == Path(findings[0]["file"]).resolve()
    assert "is not sound: 1 finding, the first: damage: " in ran.err
    assert before == contents(directory)


def test_a_foreign_cluster_is_refused(directory: Path) -> None:
    ran = run("log", "verify", directory, "--cluster-id", "another")

    assert 1 == ran.code
    assert ran.out.startswith(
        f"foreign: {directory}/meta.properties: cluster.id is {CLUSTER_ID}, another is expected\n"
    )


def test_a_directory_that_was_never_formatted_is_not_sound(directory: Path) -> None:
    (directory / "meta.properties").unlink()

    (finding,) = failing(directory)

    assert "the directory is not formatted" in finding.reason


def test_a_gap_between_segments_is_found(tmp_path: Path) -> None:
    partition = write_log(tmp_path, a_history(), segment_bytes=250)
    segments = sorted(partition.glob("*.log"))
    assert [] == failing(tmp_path)
    assert len(segments) > 3
    segments[1].unlink()

    findings = failing(tmp_path)

    assert any("follows one that ends at" in finding.reason for finding in findings)


def test_a_log_that_begins_late_needs_a_checkpoint(tmp_path: Path) -> None:
    partition = write_log(tmp_path, a_history(), segment_bytes=250)
    gone = [path for path in partition.glob("*.log") if int(path.stem) < 7]
    for path in gone:
        path.unlink()
    (first, *_) = sorted(int(path.stem) for path in partition.glob("*.log"))

    assert any("there is no checkpoint of what lies before" in finding.reason for finding in failing(tmp_path))

    write_checkpoint(partition, state_at(7), OffsetAndEpoch(epoch=1, offset=7))
    assert 7 == first
    assert [] == failing(tmp_path)


def test_a_segment_may_begin_with_an_epoch(tmp_path: Path) -> None:
    """An election after `segment.ms` begins one; its epoch goes on in the checkpoint, and a node starts."""
    partition = write_log(tmp_path, a_history(), segment_bytes=250)
    segment = partition / "00000000000000000007.log"
    assert [] == failing(tmp_path) + failing(segment)

    for path in [each for each in partition.glob("0*.*") if int(each.stem) < 7]:
        path.unlink()
    write_checkpoint(partition, state_at(9), OffsetAndEpoch(epoch=2, offset=9))

    assert [] == failing(tmp_path) + failing(segment)
    log = DiskLog(tmp_path)
    assert (9, END_OFFSET) == (log.start, log.leo)
    log.close()


def test_a_second_leader_change_after_the_checkpoint_is_found(tmp_path: Path) -> None:
    """Where the log goes on right at the checkpoint, the epoch before its first batch is known."""
    partition = write_log(tmp_path, [*a_history()[:5], leader_change(1, 7)], epoch=1, segment_bytes=1)
    for path in [each for each in partition.glob("0*.*") if int(each.stem) < 7]:
        path.unlink()
    write_checkpoint(partition, state_at(7), OffsetAndEpoch(epoch=1, offset=7))

    (finding,) = failing(tmp_path)

    assert "a second LeaderChange in epoch 1; an epoch has one leader" == finding.reason


def a_log_with(tmp_path: Path, *records: tuple[Message, int]) -> Path:
    write_log(tmp_path, [*a_history(), batch(2, END_OFFSET, *records)])
    return tmp_path


def test_unknown_records_are_told_and_are_no_error(tmp_path: Path) -> None:
    unknown = UnknownRecord(api_key=99, version=7, body=b"?"), 7
    future = UnknownRecord(api_key=2, version=63, body=b"?"), 63

    ran = run("log", "verify", a_log_with(tmp_path, unknown, future), "--json")

    assert (0, "") == (ran.code, ran.err)
    told = [(each["severity"], each["offset"], each["reason"]) for each in ran.document["findings"]]
    stops = "Kafka stops at such"
    expected = [
        ("unknown", 11, f"a record with api key 99 in version 7; {stops}"),
        ("unknown", 12, f"a record with api key 2 in version 63; {stops}"),
    ]
    assert expected == told


def test_a_record_that_contradicts_the_log_is_found(tmp_path: Path) -> None:
    (finding,) = failing(a_log_with(tmp_path, (RemoveTopicRecord(bytes(15) + b"\x63"), 0)))

    assert ("damage", 11) == (finding.severity, finding.offset)
    assert finding.reason.startswith("RemoveTopicRecord at offset 11: ")


def test_bytes_that_are_sound_and_no_record_are_found(tmp_path: Path) -> None:
    nonsense = data_batch(base_offset=END_OFFSET, epoch=2, timestamp_ms=START_MS, values=[b"\x01\x02\x00\xff"])
    write_log(tmp_path, [*a_history(), nonsense])

    (finding,) = failing(tmp_path)

    assert "TopicRecord.name" in finding.reason


def test_a_checkpoint_that_says_other_than_the_log_is_found(tmp_path: Path) -> None:
    partition = write_log(tmp_path, a_history())
    state = state_at(7)
    state.apply(ConfigRecord(2, "foo.bar", "retention.ms", "9"), 7)
    write_checkpoint(partition, state, OffsetAndEpoch(epoch=1, offset=7))

    (finding,) = failing(tmp_path)

    assert "the log does not come to what the checkpoint at offset 7 says" == finding.reason


def test_an_election_older_than_the_log_is_found(tmp_path: Path) -> None:
    """The epoch is noted before anything of it is written: this quorum-state is not the one of this log."""
    write_log(tmp_path, a_history(), epoch=1)

    (finding,) = failing(tmp_path)

    assert finding.reason.startswith("leaderEpoch 1, and the log has epoch 2")


def test_an_epoch_has_one_leader(tmp_path: Path) -> None:
    write_log(tmp_path, [*a_history(), leader_change(2, END_OFFSET)])

    (finding,) = failing(tmp_path)

    assert "a second LeaderChange in epoch 2; an epoch has one leader" == finding.reason


def test_an_epoch_begins_with_its_leader(tmp_path: Path) -> None:
    write_log(tmp_path, [*a_history(), batch(3, END_OFFSET, (NoOpRecord(), 0))], epoch=3)

    (finding,) = failing(tmp_path)

    assert finding.reason.startswith("epoch 3 follows epoch 2 without the LeaderChange")


@pytest.mark.parametrize(
    "name",
    [LOG_NAME, AT_OFFSET_7, "quorum-state", "leader-epoch-checkpoint", "partition.metadata", "../meta.properties"],
)
def test_one_file_by_itself(partition: Path, name: str) -> None:
    assert (0, "") == run("log", "verify", partition / name)[::2]


def test_the_partition_by_itself(partition: Path) -> None:
    ran = run("log", "verify", partition, "--json")

    assert (0, True, 11, CLUSTER_ID) == (
        ran.code,
        ran.document["sound"],
        ran.document["endOffset"],
        ran.document["clusterId"],
    )


def test_epochs_of_records_that_a_truncation_has_removed_are_told(directory: Path, partition: Path) -> None:
    """It removes the records first. Where no file is left that could have had them, something else is gone."""
    path = partition / LEADER_EPOCHS
    path.write_bytes(path.read_bytes().replace(b"0\n2\n1 0\n2 7", b"0\n3\n1 0\n2 7\n3 40"))

    ran = run("log", "verify", directory)

    assert 0 == ran.code
    assert "epoch 3 begins at 40 here; the log ends at 11: a crash interrupted a truncation" in ran.out

    for each in partition.glob("0*.*"):
        each.unlink()
    assert [LEADER_EPOCHS] == [finding.path.name for finding in failing(directory) if finding.path.is_file()]
    assert any("the log ends at offset 0, and was known to be on disk below 11" == f.reason for f in failing(directory))


def test_leftovers_are_told(directory: Path, partition: Path) -> None:
    (partition / "00000000000000000009-0000000002-abc.checkpoint.part").write_bytes(b"half")

    ran = run("log", "verify", directory)

    assert 0 == ran.code
    assert "checkpoint.part: left over; a start removes it" in ran.out


def test_refuses_what_is_no_metadata_directory(tmp_path: Path) -> None:
    ran = run("log", "verify", tmp_path)

    assert (1, True) == (ran.code, "is no metadata directory" in ran.err)


def test_a_directory_of_a_brokers_logs_of_its_own_is_not_called_healthy(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text("[2026-12-01 02:00:00,000] INFO started\n")

    ran = run("doctor", "--offline", tmp_path)

    assert (1, True) == (ran.code, f"{tmp_path} is no metadata directory" in ran.err)


def test_a_checkpoint_is_what_it_was_made_of(partition: Path) -> None:
    """The helper writes what Kafka would: the features of the history are the checkpoint's first records."""
    reader = SnapshotReader(partition / AT_OFFSET_7)
    first = next(iter(reader.values()))
    reader.close()

    assert encode_record(FeatureLevelRecord("metadata.version", 25), 0) == first
    assert TOPIC_ID in (partition / AT_OFFSET_7).read_bytes()


@pytest.mark.parametrize("name", ["../meta.properties", QUORUM_STATE, PARTITION_METADATA, LEADER_EPOCHS])
def test_any_flipped_byte_beside_our_log_is_found(directory: Path, partition: Path, name: str) -> None:
    path = partition / name
    whole = path.read_bytes()
    for at in range(len(whole)):
        for mask in (1, 0x20, 0xFF):
            path.write_bytes(whole[:at] + bytes((whole[at] ^ mask,)) + whole[at + 1 :])

            assert failing(directory), (at, mask)


def test_a_voter_that_lost_its_directory_id_is_not_sound(tmp_path: Path) -> None:
    """A start would give it another: Kafka's does, too (KIP-858)."""
    config = a_controller(tmp_path)
    run("storage", "format", "-c", config, "-t", CLUSTER_ID, "--standalone")
    data = tmp_path / "data"

    assert 0 == run("log", "verify", data).code

    meta = read_meta_properties(data)
    assert meta is not None
    write_meta_properties(data, replace(meta, directory_id=None))
    ran = run("log", "verify", data)

    assert 1 == ran.code
    assert "no directory.id, and the voters have node 1 with " in ran.err


def a_controller(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=controller\nnode.id=1\nlisteners=CONTROLLER://127.0.0.1:19193\n"
        f"controller.listener.names=CONTROLLER\nlog.dirs={tmp_path / 'data'}\n"
    )
    return path


def test_a_log_that_lies_flat_beside_meta_properties_is_not_sound(directory: Path, partition: Path) -> None:
    """A start would not find it, and begin an empty one."""
    for path in list(partition.iterdir()):
        path.rename(directory / path.name)
    partition.rmdir()

    ran = run("log", "verify", directory)

    assert 1 == ran.code
    assert f"damage: {directory / LOG_NAME}: it lies beside meta.properties" in ran.out
