"""Logs that are made up could be real: each replays to the state that its maker had, and is found sound."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft import Message
from quorate.cli.verify import verify_path
from quorate.metadata.canonical import canonical
from quorate.metadata.state import ClusterState
from quorate.nouns import OffsetAndEpoch
from quorate.records import decode_record, trace_of
from quorate.storage.meta_properties import read_meta_properties
from quorate.storage.names import LOG, PARTITION_DIRECTORY, checkpoint_file, checkpoint_ids
from quorate.storage.snapshots import SnapshotReader
from quorate.wire.batch import BatchHeader, batches, data_values
from tests.bench.synthetic import Shape
from tests.bench.synthetic_clusters import LISTING, Made, Plan, generate, main, plans

RECORDS = 10_000
SHAPE = Shape(partitions=300, partitions_per_topic=20, brokers=9, racks=3)
HAPPENS = {
    "RegisterControllerRecord",
    "RegisterBrokerRecord",
    "BrokerRegistrationChangeRecord",
    "TopicRecord",
    "PartitionRecord",
    "PartitionChangeRecord",
    "RemoveTopicRecord",
    "ConfigRecord",
    "FeatureLevelRecord",
    "ProducerIdsRecord",
    "NoOpRecord",
}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    directory = tmp_path_factory.mktemp("synthetic") / "cluster"
    return Plan(number=0, seed=7, directory=directory, records=RECORDS, shape=SHAPE, segment_bytes=200_000)


@pytest.fixture(scope="module")
def made(plan: Plan) -> Made:
    return generate(plan)


def content(plan: Plan) -> Iterator[tuple[BatchHeader, list[bytes]]]:
    """Each batch, with the values of its records; none of a control batch."""
    for path in sorted((plan.directory / PARTITION_DIRECTORY).glob(f"*{LOG}")):
        data = path.read_bytes()
        for position, header in batches(data):
            yield header, [] if header.is_control else data_values(data, position, header)


def replayed(plan: Plan) -> Iterator[tuple[int, ClusterState]]:
    """The state after each batch, and where it ends."""
    state = ClusterState()
    for header, values in content(plan):
        for offset, value in enumerate(values, header.base_offset):
            state.apply(decode_record(value), offset)
        state.settle()
        yield header.next_offset, state


def records(plan: Plan) -> list[Message]:
    return [decode_record(value) for _, values in content(plan) for value in values]


def test_the_log_replays_to_the_state_that_decided_it(plan: Plan, made: Made) -> None:
    *_, (end, state) = replayed(plan)

    assert made.records == end
    assert made.fingerprint == canonical(state)


def test_every_checkpoint_is_what_the_log_comes_to_there(plan: Plan, made: Made) -> None:
    partition = plan.directory / PARTITION_DIRECTORY
    ids = {each.offset: each for each in checkpoint_ids(partition) if each.offset}
    found = {end: canonical(state) for end, state in replayed(plan) if end in ids}

    assert list(made.checkpoints) == sorted(ids)
    assert 4 == len(ids)
    assert found == {offset: of_checkpoint(partition, snapshot) for offset, snapshot in ids.items()}


def of_checkpoint(partition: Path, snapshot: OffsetAndEpoch) -> str:
    state = ClusterState()
    state.load(map(decode_record, SnapshotReader(checkpoint_file(partition, snapshot)).values()), snapshot.offset)
    return canonical(state)


def test_the_directory_is_sound(plan: Plan, made: Made) -> None:
    report = verify_path(plan.directory, cluster_id=made.cluster_id)

    assert [] == report.findings
    assert (0, made.records, made.epochs) == (report.start, report.end, report.last_epoch)


def test_the_log_lies_in_segments_of_kafkas_names(plan: Plan, made: Made) -> None:
    partition = plan.directory / PARTITION_DIRECTORY
    segments = sorted(partition.glob(f"*{LOG}"))
    owner = read_meta_properties(plan.directory)

    assert owner is not None
    assert made.cluster_id == owner.cluster_id
    assert made.bytes == sum(path.stat().st_size for path in segments)
    assert len(segments) > 1
    assert max(path.stat().st_size for path in segments) <= plan.segment_bytes


def test_all_sorts_of_things_happen(plan: Plan, made: Made) -> None:
    counts = Counter(type(record).__name__ for record in records(plan))

    assert HAPPENS <= set(counts)
    assert counts["PartitionChangeRecord"] > RECORDS // 2, "as in real logs, most records change a partition"
    assert made.epochs > 1


def test_each_request_is_traced_and_no_chore_is(plan: Plan, made: Made) -> None:
    first = [decode_record(values[0]) for _, values in content(plan) if values]
    by_trace = {type(record).__name__: trace_of(record) is not None for record in first}
    traces = [trace_of(record) for record in first]

    assert {"NoOpRecord": False, "TopicRecord": True, "RemoveTopicRecord": True}.items() <= by_trace.items()
    assert len(set(filter(None, traces))) == len(list(filter(None, traces)))


def test_time_goes_on_over_as_many_days_as_were_asked_for(plan: Plan, made: Made) -> None:
    times = [header.base_timestamp for header, _ in content(plan)]
    days = (times[-1] - times[0]) / 86_400_000

    assert sorted(times) == times
    assert abs(days - plan.days) < plan.days / 10, days


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(plan: Plan, made: Made, tmp_path: Path) -> None:
    def bytes_of(seed: int, name: str) -> list[bytes]:
        other = Plan(number=0, seed=seed, directory=tmp_path / name, records=2_000, shape=SHAPE)
        generate(other)
        return [path.read_bytes() for path in sorted((tmp_path / name / PARTITION_DIRECTORY).glob("*.[lc]*"))]

    one = bytes_of(1, "one")

    assert one == bytes_of(1, "again")
    assert one != bytes_of(2, "other")


def test_clusters_may_be_of_very_different_sizes() -> None:
    even = [plan.records for plan in plans(Path(), records=100_000, clusters=4, seed=1)]
    skewed = [plan.records for plan in plans(Path(), records=100_000, clusters=4, seed=1, skew=1)]

    assert [25_000] * 4 == even
    assert [48_000, 24_000, 16_000, 12_000] == skewed


def test_the_command_makes_clusters_of_their_own_and_lists_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--records", "4000", "--clusters", "2", "--to", str(tmp_path / "logs")]
    code = main(asked)
    listed = json.loads((tmp_path / "logs" / LISTING).read_text())

    assert 0 == code
    assert 2 == len({each["cluster_id"] for each in listed})
    assert all(verify_path(Path(each["directory"])).is_sound for each in listed)
    assert "records of 2 clusters in" in capsys.readouterr().err
    assert 2 == main(asked), "what is there is not written over"
