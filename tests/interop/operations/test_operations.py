"""One script of admin operations to Kafka controllers, to ours, and to ours through a gateway: all is equal.

Then a controller of the same Kafka release goes on from our log of the script, and what it makes of it is our state.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from quorate.cli.offline import load
from quorate.metadata.configs import TOPIC
from quorate.metadata.partitions import RECOVERING
from quorate.metadata.topics import Topic
from quorate.nouns import OffsetAndEpoch, uuid_text
from quorate.records import SnapshotFooterRecord, SnapshotHeaderRecord, encode_record
from quorate.storage.meta_properties import read_meta_properties
from quorate.storage.names import PARTITION_DIRECTORY, checkpoint_file, checkpoint_ids
from quorate.storage.snapshots import SnapshotWriter
from quorate.wire.batch import ControlType
from quorate.wire.codec import encode
from services.controller.handlers import HANDLERS
from tests.e2e.offline import stored_log
from tests.interop.kafka.judge import metadata_shell, start_controller_on
from tests.interop.kafka.release import OPERATIONS_POM as POM
from tests.interop.kafka.release import absent
from tests.interop.operations.apis import rpc_of
from tests.interop.operations.comparison import codes, differences, is_refusal, leaves, rows, whole
from tests.interop.operations.play import Played, Seen, all_running, play
from tests.interop.operations.records import Json, Row, between, written
from tests.interop.operations.script.whole import ASKED, SCRIPT
from tests.interop.operations.step import Ask, Step

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent(POM) is not None, reason=str(absent(POM))),
    pytest.mark.timeout(1_800),
]

STEPS_MIN: Final = 200
TARGETS: Final = ("theirs", "ours", "at_gateway")
NOT_SERVED: Final = frozenset(
    {"DescribeClientQuotas", "DescribeDelegationToken", "DescribeTopicPartitions", "DescribeUserScramCredentials"}
)
"""Reads that a Kafka controller leaves to its brokers. Their answers are in the states, which are compared."""
OF_THE_HEARTBEAT_SERVICE: Final = frozenset({"BrokerHeartbeat"})
GOES_ON_TIMEOUT_S: Final = 300
SHELL_TRIES_MAX: Final = 10
BEFORE_THE_NEWEST: Final = "to see the newest"
"""The last step before the script goes to the newest metadata.version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The whole script, played; and our directory as it was left."""

    played: Mapping[str, Played]
    log_dir: Path
    records: Mapping[str, Mapping[str, Sequence[Json]]]
    """What each target wrote in a step: by target, then by step."""

    def both(self, step: Step, door: str) -> tuple[Seen, Seen]:
        """Kafka's controllers and ours, as they were asked and answered in a step, and what they were after it."""
        played = self.played[step.name]
        return played.theirs, getattr(played, door)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    return asyncio.run(_course(tmp_path_factory.mktemp("operations")))


async def _course(scratch: Path) -> Course:
    async with all_running(scratch) as stages:
        played = {each.step.name: each async for each in play(stages, SCRIPT)}
        targets = {name: getattr(stages, name).target.log_dir for name in TARGETS}
    names = {
        topic_id: topic
        for each in played.values()
        for name in TARGETS
        for topic_id, topic in getattr(each, name).view.names.items()
    }
    records = {
        name: dict(_by_step([getattr(each, name) for each in played.values()], written(log_dir, names), played))
        for name, log_dir in targets.items()
    }
    return Course(played=played, log_dir=targets["ours"], records=records)


def _by_step(seen: Sequence[Seen], rows: Sequence[Row], steps: Iterable[str]) -> Iterator[tuple[str, Sequence[Json]]]:
    """The records since the step before were seen."""
    starts = [seen[0].before.offset, *(each.view.offset for each in seen)]
    for step, start, each in zip(steps, starts, seen, strict=False):
        yield step, between(rows, start, each.view.offset)


def named(step: Step) -> str:
    return step.name


def differs(step: Step) -> bool:
    """Do we answer otherwise by intent? The states may then part until the next step."""
    return isinstance(step, Ask) and step.differs is not None


either_door = pytest.mark.parametrize("door", ["ours", "at_gateway"])
every_ask = pytest.mark.parametrize("step", ASKED, ids=named)
where_we_do_not_differ = pytest.mark.parametrize("step", [each for each in ASKED if each.differs is None], ids=named)


def test_the_script_is_long_and_its_steps_have_names_of_their_own() -> None:
    assert len(ASKED) >= STEPS_MIN
    assert [] == [name for name, count in Counter(map(named, SCRIPT)).items() if count > 1]


def test_the_script_asks_for_all_that_both_serve(course: Course) -> None:
    """Else an API that is added could be left out."""
    asked = {rpc_of(type(each.ours.request)) for each in course.played.values() if each.ours.request is not None}

    assert asked == HANDLERS.keys() - NOT_SERVED | OF_THE_HEARTBEAT_SERVICE


@either_door
@every_ask
def test_errors(course: Course, step: Ask, door: str) -> None:
    """Code by code: those that the script expects, of both."""
    theirs, ours = course.both(step, door)
    assert theirs.outcome is not None
    assert ours.outcome is not None

    assert step.errors == codes(theirs.outcome)
    assert (step.errors if step.differs is None else step.differs) == codes(ours.outcome)


@either_door
@where_we_do_not_differ
def test_answers(course: Course, step: Ask, door: str) -> None:
    """A gateway has an answer to every request; gRPC has a status for one that is refused as a whole."""
    theirs, ours = course.both(step, door)
    assert theirs.outcome is not None
    assert ours.outcome is not None

    if ours.outcome.refusal is not None:
        assert is_refusal(theirs.outcome, ours.outcome.refusal)
    else:
        assert {} == leaves(
            whole(theirs.outcome, (theirs.before, theirs.view), step.masks),
            whole(ours.outcome, (ours.before, ours.view), step.masks),
        )


@either_door
@pytest.mark.parametrize("step", [each for each in SCRIPT if not differs(each)], ids=named)
def test_states(course: Course, step: Step, door: str) -> None:
    """After every step, not only after the last: two errors do not make up for each other."""
    theirs, ours = course.both(step, door)

    assert {} == differences(theirs.rows, ours.rows)


@either_door
@pytest.mark.parametrize(
    "step", [each for before, each in pairwise(SCRIPT) if not differs(before) and not differs(each)], ids=named
)
def test_records(course: Course, step: Step, door: str) -> None:
    """Each record that made the state, in its order and its version: other records could make the same state.

    The step after one that differs heals what that has left.
    """
    theirs, ours = course.records["theirs"][step.name], course.records[door][step.name]
    if isinstance(step, Ask) and step.is_so_already:
        assert theirs
        theirs = []

    assert theirs == ours


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneOn:
    """A JVM controller went on from our log: its directory, where our log ended, and its own checkpoint after that."""

    log_dir: Path
    end: int
    checkpoint: Path


@pytest.fixture(scope="module")
def gone_on(course: Course, tmp_path_factory: pytest.TempPathFactory) -> GoneOn:
    """It replays strictly: what does not fit the record before ends the process. Then it writes what it has.

    Our quorum had three voters; the copy is a quorum by itself, so the file that says who voted is left out.
    """
    scratch = tmp_path_factory.mktemp("gone-on")
    source, partition = scratch / "source", scratch / "jvm" / "data" / PARTITION_DIRECTORY
    shutil.copytree(course.log_dir, source)
    (source / PARTITION_DIRECTORY / "quorum-state").unlink()
    end = load(source).as_of_offset
    meta = read_meta_properties(source)
    assert meta is not None, source
    at_once = {"metadata_log_max_record_bytes_between_snapshots": 1}
    with start_controller_on(source, scratch / "jvm", node_id=meta.node_id, pom=POM, **at_once) as node:
        node.wait_ready()
        node.wait_until(
            lambda: any(each.offset >= end for each in checkpoint_ids(partition)),
            f"it has a checkpoint of all {end} records",
            GOES_ON_TIMEOUT_S,
        )
        node.stop()
    last = max(checkpoint_ids(partition), key=lambda each: each.offset)
    return GoneOn(log_dir=scratch / "jvm" / "data", end=end, checkpoint=checkpoint_file(partition, last))


def test_a_jvm_controller_goes_on_from_our_last_record(course: Course, gone_on: GoneOn) -> None:
    ours, theirs = stored_log(course.log_dir), stored_log(gone_on.log_dir)

    assert ours == theirs[: len(ours)]
    assert theirs[len(ours)].epoch > ours[-1].epoch


def test_its_image_is_our_state(course: Course, gone_on: GoneOn) -> None:
    """A JVM's image keeps the configs of a topic that came and went while it was built; its controller does not."""
    image, ours = load(gone_on.checkpoint).state, rows(load(course.log_dir).state)
    topics = {topic.name for topic in image.topics}
    theirs = {
        key: row
        for key, row in rows(image).items()
        if row.get("resourceType") != TOPIC or row["resourceName"] in topics
    }

    assert {} == differences(theirs, ours)


def test_its_metadata_shell_shows_our_topics(course: Course, tmp_path: Path) -> None:
    """Before the script goes to a metadata.version that the shell of the release before does not know.

    The shell answers after the first batch that it has read, which may be before the last: then it is asked again.
    """
    offset = course.played[BEFORE_THE_NEWEST].ours.view.offset
    before = load(course.log_dir, as_of=offset).state
    writer = SnapshotWriter(tmp_path, OffsetAndEpoch(epoch=1, offset=offset), timestamp_ms=1)
    writer.control([(ControlType.SNAPSHOT_HEADER, encode(SnapshotHeaderRecord(), 0))])
    writer.data([encode_record(record, version) for record, version in before.records()])
    writer.finish(encode(SnapshotFooterRecord(), 0))
    (checkpoint,) = tmp_path.glob("*.checkpoint")
    expected = [line for topic in sorted(before.topics, key=lambda topic: topic.name) for line in shown(topic)]

    printed: list[str] = []
    for _ in range(SHELL_TRIES_MAX):
        printed = metadata_shell(checkpoint, "tree", "/image/topics/byName").splitlines()
        if printed == expected:
            break

    assert expected == printed


def shown(topic: Topic) -> Iterator[str]:
    """A topic as the shell prints it below its name."""
    yield f"{topic.name}:"
    for number, partition in sorted(topic.partitions.items(), key=lambda each: str(each[0])):
        fields = {
            "replicas": _list(partition.replicas),
            "directories": _list(map(uuid_text, partition.directories)),
            "isr": _list(partition.isr),
            "removingReplicas": _list(partition.removing_replicas),
            "addingReplicas": _list(partition.adding_replicas),
            "elr": _list(partition.elr),
            "lastKnownElr": _list(partition.last_known_elr),
            "leader": partition.leader,
            "leaderRecoveryState": "RECOVERING" if partition.leader_recovery_state == RECOVERING else "RECOVERED",
            "leaderEpoch": partition.leader_epoch,
            "partitionEpoch": partition.partition_epoch,
        }
        yield f"  {number}:"
        yield f"    PartitionRegistration({', '.join(f'{name}={value}' for name, value in fields.items())})"
    yield from ("  id:", f"    {uuid_text(topic.id)}", "  name:", f"    {topic.name}")


def _list(values: Iterable[object]) -> str:
    return f"[{', '.join(map(str, values))}]"
