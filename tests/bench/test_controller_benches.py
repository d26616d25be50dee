"""What the controller's benches measure is what happens: the cluster is there, writes are whole, nobody is refused."""

from __future__ import annotations

from pathlib import Path

from quorate.controller.commands.change_broker_state import change_broker_state
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import RECORDS_PER_WRITE_MAX
from quorate.liveness import ControlState
from quorate.metadata.canonical import canonical
from quorate.metadata.state import ClusterState
from quorate.records import decode_record
from quorate.storage.names import checkpoint_file
from quorate.storage.snapshots import SnapshotReader
from tests.bench.controller_core import commit, standby, write
from tests.bench.controller_fencing import victims
from tests.bench.controller_memory import measure
from tests.bench.controller_nodes import CHECKPOINT, write_checkpoint
from tests.bench.synthetic import Shape, broker_epoch

SHAPE = Shape(partitions=1_050, brokers=30)


def test_every_directory_begins_with_the_cluster_that_a_standby_has(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in ("one", "other")]
    write_checkpoint(SHAPE, directories)
    states = []
    for directory in directories:
        state = ClusterState()
        state.load(map(decode_record, SnapshotReader(checkpoint_file(directory, CHECKPOINT)).values()), 1)
        states.append(canonical(state))

    assert [canonical(standby(SHAPE).state)] * 2 == states


def test_a_write_is_applied_at_once_and_answered_when_its_last_batch_is_committed() -> None:
    engine = standby(Shape(partitions=2 * RECORDS_PER_WRITE_MAX, brokers=3, racks=3))
    engine.claim(1, engine.next_offset)
    written = write(
        engine,
        change_broker_state(
            broker_id=0, broker_epoch=broker_epoch(0), target=ControlState.FENCED, settings=ControllerSettings()
        ),
    )

    assert 0 == engine.state.topics.isr_count(0)
    assert [10_000, 10_000, 1] == [len(append.values) for append in written.appends]
    assert 3 == len(commit(engine, written))
    assert engine.next_offset == engine.committed


def test_brokers_that_are_fenced_one_after_the_other_share_no_partition() -> None:
    fenced = set(victims(SHAPE))
    shared = [found for found in standby(SHAPE).state.topics.all() if len(fenced & {*found.partition.replicas}) > 1]

    assert 5 == len(fenced)
    assert [] == shared


def test_a_state_is_changed_whether_it_is_held_or_not(tmp_path: Path) -> None:
    write_checkpoint(SHAPE, [tmp_path])

    assert [105, 105] == [measure(what, tmp_path)["changes"] for what in ("held", "free")]
