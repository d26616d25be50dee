"""quorum-state: what a node must not forget, in Kafka's form, and every way in which it can be lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft import Uuid
from quorate.errors import Corrupt
from quorate.nouns import EPOCHS_END, ReplicaKey
from quorate.storage.election_file import ElectionFile, StoredElection
from quorate.storage.names import ELECTION_MARK, QUORUM_STATE
from tests.storage.logs import Crash, crash, failpoint

DIRECTORY_ID = Uuid(bytes(range(100, 116)))
VOTE = StoredElection(epoch=7, leader_id=2, voted=ReplicaKey(3, DIRECTORY_ID))

elections = st.builds(
    StoredElection,
    epoch=st.integers(0, EPOCHS_END - 1),
    leader_id=st.none() | st.integers(0, 1 << 30),
    voted=st.none() | st.builds(ReplicaKey, st.integers(0, 1 << 30), st.binary(min_size=16, max_size=16).map(Uuid)),
)


@settings(deadline=None)
@given(elections)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, election: StoredElection) -> None:
    file = ElectionFile(tmp_path_factory.getbasetemp())

    file.write(election, version=1)

    assert election == file.read()


def test_the_first_line_is_kafkas(tmp_path: Path) -> None:
    ElectionFile(tmp_path).write(VOTE, version=1)

    line = (tmp_path / QUORUM_STATE).read_text().splitlines()[0]

    assert {
        "leaderId": 2,
        "leaderEpoch": 7,
        "votedId": 3,
        "votedDirectoryId": "ZGVmZ2hpamtsbW5vcHFycw",
        "data_version": 1,
    } == json.loads(line)


def test_version_0_names_the_voters_and_no_directory(tmp_path: Path) -> None:
    file = ElectionFile(tmp_path, voters=(1, 2))

    file.write(VOTE, version=0)

    assert (
        '{"clusterId":"","leaderId":2,"leaderEpoch":7,"votedId":3,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    ) == (tmp_path / QUORUM_STATE).read_text().splitlines()[0]
    assert StoredElection(epoch=7, leader_id=2, voted=ReplicaKey(3)) == file.read()


@pytest.mark.parametrize("end", ["", "\n"])
def test_what_kafka_writes_has_no_checksum_and_is_believed(tmp_path: Path, end: str) -> None:
    (tmp_path / QUORUM_STATE).write_text(
        '{"leaderId":1,"leaderEpoch":5,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}' + end
    )

    assert StoredElection(epoch=5, leader_id=1) == ElectionFile(tmp_path).read()


def test_a_flipped_byte_anywhere_is_found(tmp_path: Path) -> None:
    file = ElectionFile(tmp_path)
    file.write(VOTE, version=1)
    whole = file.path.read_bytes()
    for at in range(len(whole)):
        for bit in (1, 0x80):
            file.path.write_bytes(whole[:at] + bytes((whole[at] ^ bit,)) + whole[at + 1 :])
            with pytest.raises(Corrupt, match="the vote in it cannot be guessed") as refused:
                file.read()

            assert file.path == refused.value.path


@pytest.mark.parametrize("size", [0, 1, 40, 100])
def test_a_file_that_is_cut_is_refused(tmp_path: Path, size: int) -> None:
    file = ElectionFile(tmp_path)
    file.write(VOTE, version=1)
    file.path.write_bytes(file.path.read_bytes()[:size])

    with pytest.raises(Corrupt, match="not a quorum-state"):
        file.read()


FULL = {"leaderId": 1, "leaderEpoch": 5, "votedId": -1, "votedDirectoryId": "", "data_version": 1}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data_version", 2),
        ("data_version", None),
        ("leaderEpoch", -1),
        ("leaderEpoch", 1 << 31),
        ("leaderEpoch", "5"),
        ("leaderEpoch", True),
        ("leaderId", -2),
        ("votedId", 1.5),
        ("votedDirectoryId", "short"),
        ("votedDirectoryId", 7),
    ],
)
def test_a_value_that_cannot_be_is_refused(tmp_path: Path, key: str, value: object) -> None:
    (tmp_path / QUORUM_STATE).write_text(json.dumps({**FULL, key: value}))

    with pytest.raises(Corrupt, match="not a quorum-state"):
        ElectionFile(tmp_path).read()


@pytest.mark.parametrize("text", ["[]", "null", "7", "{}", "[" * 100_000, '{"data_version":1}'])
def test_json_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / QUORUM_STATE).write_text(text)

    with pytest.raises(Corrupt, match="not a quorum-state"):
        ElectionFile(tmp_path).read()


def test_what_cannot_be_read_at_all_is_refused(tmp_path: Path) -> None:
    (tmp_path / QUORUM_STATE).mkdir()

    with pytest.raises(Corrupt, match="it cannot be read from the disk"):
        ElectionFile(tmp_path).read()


# Missing, or never written.


def test_a_new_node_has_no_vote(tmp_path: Path) -> None:
    assert ElectionFile(tmp_path).read() is None


def test_a_file_that_was_written_and_is_gone_is_missed(tmp_path: Path) -> None:
    ElectionFile(tmp_path).write(VOTE, version=1)
    (tmp_path / QUORUM_STATE).unlink()

    with pytest.raises(Corrupt, match="it was written and is missing; the vote in it cannot be guessed") as refused:
        ElectionFile(tmp_path).read()

    assert tmp_path / QUORUM_STATE == refused.value.path


def test_the_mark_is_made_when_a_file_of_kafkas_is_written_over(tmp_path: Path) -> None:
    (tmp_path / QUORUM_STATE).write_text(json.dumps(FULL))
    file = ElectionFile(tmp_path)

    assert file.read() is not None
    assert not (tmp_path / ELECTION_MARK).exists()
    file.write(VOTE, version=1)

    assert (tmp_path / ELECTION_MARK).exists()


# Crashes.


@pytest.mark.parametrize("place", ["state.before_tmp_fsync", "state.before_rename", "state.after_rename"])
def test_a_crash_leaves_the_old_vote_or_the_new_one(tmp_path: Path, place: str) -> None:
    file = ElectionFile(tmp_path)
    file.write(VOTE, version=1)

    with failpoint(place, crash), pytest.raises(Crash):
        file.write(StoredElection(epoch=8), version=1)

    assert (8 if place == "state.after_rename" else 7) == (file.read() or VOTE).epoch


@pytest.mark.parametrize("place", ["state.before_tmp_fsync", "state.before_rename", "state.after_rename"])
def test_a_crash_in_the_first_write_makes_no_node_refuse_to_start(tmp_path: Path, place: str) -> None:
    file = ElectionFile(tmp_path)

    with failpoint(place, crash), pytest.raises(Crash):
        file.write(VOTE, version=1)

    assert (VOTE if place == "state.after_rename" else None) == file.read()
