"""A directory that is not as its node left it: what the node sees of that, says and does, through its real disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kraft import Uuid
from quorate.nouns import OffsetAndEpoch, ReplicaKey
from quorate.raft.roles import ElectionState
from quorate.storage.election_file import ElectionFile
from quorate.storage.meta_properties import MetaProperties, write_meta_properties
from quorate.storage.names import LAST_KNOWN, OWNER, PROMISE, QUORUM_STATE
from services.quorum.disk import Disk
from tests.services.nodes import open_disk
from tests.storage.logs import batch, partition

EARLIER = ElectionState(epoch=1, voted=ReplicaKey(2))
LATER = ElectionState(epoch=2, leader_id=3, voted=ReplicaKey(3))
END = OffsetAndEpoch(epoch=2, offset=8)
VOTERS = 3


def formatted(directory: Path, node_id: int = 1) -> Path:
    directory.mkdir()
    meta = MetaProperties(cluster_id="c", node_id=node_id, directory_id=Uuid(bytes([node_id]) * 16))
    write_meta_properties(directory, meta)
    return directory


def opened(directory: Path, voters: int = VOTERS) -> Disk:
    return open_disk(directory, voters=voters, recovers=True)


def grow(disk: Disk, *, epoch: int, to: int) -> None:
    for offset in range(disk.log.leo, to):
        disk.append(batch(offset, epoch=epoch))
    flush = disk.begin_flush()
    assert flush is not None
    flush.wait()
    disk.end_flush(flush)


def killed(disk: Disk) -> None:
    """The process is gone, and nothing was closed."""
    disk.log.abandon()


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A node's directory after a kill; beside it, `older` is a copy of its partition directory from before."""
    directory = formatted(tmp_path / "node")
    disk = opened(directory)
    disk.persist(EARLIER)
    grow(disk, epoch=1, to=4)
    disk.close()
    shutil.copytree(partition(directory), tmp_path / "older")
    disk = opened(directory)
    disk.persist(LATER)
    grow(disk, epoch=2, to=8)
    killed(disk)
    return directory


def older_copy(directory: Path) -> None:
    shutil.rmtree(partition(directory))
    shutil.copytree(directory.with_name("older"), partition(directory))


def emptied(directory: Path) -> None:
    shutil.rmtree(partition(directory))


def older_state(directory: Path) -> None:
    shutil.copy(directory.with_name("older") / QUORUM_STATE, partition(directory) / QUORUM_STATE)


def another_vote(directory: Path) -> None:
    other = formatted(directory.with_name("voter"), node_id=3)
    disk = opened(other)
    disk.persist(ElectionState(epoch=LATER.epoch, leader_id=3, voted=ReplicaKey(2)))
    disk.close()
    shutil.copy(partition(other) / QUORUM_STATE, partition(directory) / QUORUM_STATE)


def another_nodes(directory: Path) -> None:
    other = formatted(directory.with_name("other"), node_id=2)
    disk = opened(other)
    disk.persist(LATER)
    grow(disk, epoch=2, to=9)
    disk.close()
    shutil.rmtree(partition(directory))
    shutil.copytree(partition(other), partition(directory))


@pytest.mark.parametrize(
    ("deed", "said", "lost"),
    [
        pytest.param(older_copy, ("the log ends at offset 4", "quorum-state is of epoch 1"), END, id="older copy"),
        pytest.param(emptied, ("the log ends at offset 0", "quorum-state is missing"), END, id="emptied"),
        pytest.param(older_state, ("quorum-state is of epoch 1, and the log", "quorum-state is of"), None, id="state"),
        pytest.param(another_vote, ("quorum-state is of epoch 2, vote 2",), None, id="another node's state"),
        pytest.param(another_nodes, (f"{OWNER} has node.id=2",), None, id="another node's partition directory"),
    ],
)
def test_what_is_not_as_it_was_left_is_said_and_no_vote_or_record_is_forgotten(
    left: Path, deed: Callable[[Path], None], said: tuple[str, ...], lost: OffsetAndEpoch | None
) -> None:
    deed(left)
    disk = opened(left)

    assert [True] * len(said) == [part in doubt for part, doubt in zip(said, disk.doubts, strict=True)], disk.doubts
    assert (LATER, lost) == (disk.election(), disk.damaged_to)
    disk.close()

    again = opened(left)
    assert lost == again.damaged_to
    again.close()


def test_the_log_is_back_once_it_is_as_long_as_it_was(left: Path) -> None:
    older_copy(left)
    disk = opened(left)
    grow(disk, epoch=1, to=6)
    assert END == disk.damaged_to
    grow(disk, epoch=2, to=8)

    assert None is disk.damaged_to
    disk.close()
    again = opened(left)
    assert ((), None) == (again.doubts, again.damaged_to)
    again.close()


def test_a_sole_voter_goes_on_with_what_it_has_and_says_so(left: Path) -> None:
    emptied(left)
    disk = opened(left, voters=1)

    assert (2, None) == (len(disk.doubts), disk.damaged_to)
    disk.close()


def test_a_vote_is_the_same_where_quorum_state_has_no_directory_ids(tmp_path: Path) -> None:
    directory = formatted(tmp_path / "node")
    disk = opened(directory)
    disk.persist(ElectionState(epoch=1, voted=ReplicaKey(2, Uuid(bytes([8]) * 16))))
    disk.close()
    again = opened(directory)

    assert ((), ElectionState(epoch=1, voted=ReplicaKey(2))) == (again.doubts, again.election())
    again.close()


def test_an_operator_may_go_on_without_what_nobody_has(left: Path) -> None:
    older_copy(left)
    opened(left).close()
    (partition(left) / PROMISE).unlink()
    disk = opened(left)

    assert ((), None) == (disk.doubts, disk.damaged_to)
    disk.close()


@pytest.mark.parametrize("close", [Disk.close, killed], ids=["stopped", "killed"])
def test_a_log_that_was_cut_or_replaced_is_as_it_was_left(left: Path, close: Callable[[Disk], None]) -> None:
    disk = opened(left)
    disk.truncate_to(5)
    close(disk)
    disk = opened(left)

    assert ((), None, 5) == (disk.doubts, disk.damaged_to, disk.log.leo)
    disk.close()


def test_an_epoch_that_an_operator_has_reset_stays_reset(left: Path) -> None:
    disk = opened(left)
    disk.persist(ElectionState(epoch=9))
    disk.close()
    ElectionFile(partition(left)).reset(3)
    disk = opened(left)

    assert ((), ElectionState(epoch=3)) == (disk.doubts, disk.election())
    disk.close()


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:50])])
def test_without_what_it_knew_it_takes_what_it_finds(left: Path, spoil: Callable[[Path], object]) -> None:
    older_copy(left)
    spoil(left / LAST_KNOWN)
    disk = opened(left)

    assert ((), EARLIER, None) == (disk.doubts, disk.election(), disk.damaged_to)
    disk.close()


def test_a_directory_that_was_formatted_anew_is_another_replica(left: Path) -> None:
    shutil.rmtree(partition(left))
    write_meta_properties(left, MetaProperties(cluster_id="c", node_id=1, directory_id=Uuid(bytes([7]) * 16)))
    disk = opened(left)

    assert ((), None, None) == (disk.doubts, disk.election(), disk.damaged_to)
    disk.close()
