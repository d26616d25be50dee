"""`quorate image show --offline`: the state at any offset, by a checkpoint or from the beginning, and no secrets."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.cli.as_of import Moment
from quorate.cli.offline import load
from quorate.metadata.canonical import canonical
from quorate.metadata.configs import BROKER
from quorate.metadata.state import ClusterState
from quorate.nouns import OffsetAndEpoch
from quorate.records import (
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnknownRecord,
    UserScramCredentialRecord,
    decode_record,
    encode_record,
)
from quorate.storage.names import DURABLE_MARK
from quorate.wire.batch import batches, data_batch, data_values, read_header
from tests.cli.directories import (
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

GOLDEN = Path(__file__).parent / "golden" / "image.txt"
CONTROLLER = next(node for node in KAFKA_NODES if node.name == "controller-3")
"""The directory of a Kafka controller with a whole log and checkpoints in it."""


def state_below(offset: int) -> ClusterState:
    """The state with every record of the history below an offset; the plain way."""
    state = ClusterState()
    for data in a_history():
        header = read_header(data)
        if not header.is_control:
            for at, value in enumerate(data_values(data), header.base_offset):
                if at < offset:
                    state.apply(decode_record(value), at)
    return state


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    partition = write_log(tmp_path / "data", a_history())
    write_checkpoint(partition, state_below(7), OffsetAndEpoch(epoch=1, offset=7))
    return tmp_path / "data"


@pytest.fixture
def partition(directory: Path) -> Path:
    return directory / "__cluster_metadata-0"


def test_the_text_of_a_state(directory: Path) -> None:
    """QUORATE_REWRITE=1 writes what is found to the golden file."""
    before = contents(directory)

    ran = run("image", "show", "--offline", directory)

    assert (0, "") == (ran.code, ran.err)
    found = ran.out.replace(f"{directory.parent}/", "")
    if os.environ.get("QUORATE_REWRITE"):
        GOLDEN.write_text(found)
    assert GOLDEN.read_text() == found
    assert before == contents(directory)


def test_the_state_as_json_says_where_it_is_from(directory: Path) -> None:
    document = run("image", "show", "--offline", directory, "--json").document

    where = (document["asOfOffset"], document["epoch"], document["lastTimestamp"], document["highWatermark"])
    assert (END_OFFSET, 2, START_MS + 9, None) == where
    assert ["foo.bar"] == list(document["topics"])
    assert {"retention.ms": "1000"} == document["configs"]["TOPIC"]["foo.bar"]
    assert document["checkpoint"].endswith("00000000000000000007-0000000001.checkpoint")


@pytest.mark.parametrize("offset", range(END_OFFSET + 1))
def test_any_offset_gives_the_records_below_it(partition: Path, offset: int) -> None:
    """From the checkpoint where there is one, from the beginning where not: and from the log alone."""
    expected = canonical(state_below(offset))

    assert expected == canonical(load(partition, as_of=offset).state)
    assert expected == canonical(load(partition / LOG_NAME, as_of=offset).state)
    assert offset == load(partition, as_of=offset).as_of_offset


@pytest.mark.parametrize(("after_ms", "offset"), [(0, 1), (1, 3), (2, 3), (5, 7), (6, 7), (8, 9), (9, 11), (10**9, 11)])
def test_a_time_gives_the_records_before_the_first_batch_that_is_later(
    directory: Path, partition: Path, after_ms: int, offset: int
) -> None:
    at = str(Moment(START_MS + after_ms))
    for source in (directory, partition / LOG_NAME):
        ran = run("image", "show", "--offline", source, "--as-of", at, "--json")

        note = f"{at} is offset {offset}: the first batch that is later begins there, or the log ends"
        assert (offset, note) == (ran.document["asOfOffset"], ran.document["notes"][0])
    assert canonical(state_below(offset)) == canonical(load(partition, as_of=Moment(START_MS + after_ms)).state)


def test_a_time_is_of_the_first_later_batch_although_the_clock_of_the_next_leader_is_behind(tmp_path: Path) -> None:
    first, ahead, behind = a_history()[0], batch(1, 1, (NoOpRecord(), 0)), batch(1, 2, (NoOpRecord(), 0))
    skewed = data_batch(
        base_offset=1, epoch=1, timestamp_ms=START_MS + 500, values=list(data_values(ahead, 0, read_header(ahead)))
    )
    directory = write_log(tmp_path, [first, skewed, behind])

    assert [1, 3] == [load(directory, as_of=Moment(START_MS + ms)).as_of_offset for ms in (400, 500)]


def test_a_time_before_the_log_or_without_one_is_refused_and_says_where_the_log_begins(tmp_path: Path) -> None:
    partition = write_log(tmp_path / "log", a_history(), segment_bytes=250)
    write_checkpoint(partition, state_below(7), OffsetAndEpoch(epoch=1, offset=7))
    for path in [each for each in partition.glob("*.log") if int(each.stem) < 7]:
        path.unlink()
    checkpoint = partition / "00000000000000000007-0000000001.checkpoint"
    before = run("image", "show", "--offline", tmp_path / "log", "--as-of", "2023-11-14T22:13:20.006Z")
    alone = run("image", "show", "--offline", checkpoint, "--as-of", "2023-11-14")

    begins = "the log begins at 2023-11-14T22:13:20.007Z, at offset 7; 2023-11-14T22:13:20.006Z lies before it"
    assert (1, True) == (before.code, begins in before.err)
    assert (1, True) == (alone.code, "only a log has times; give the directory, or --as-of OFFSET" in alone.err)


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_a_checkpoint_of_kafka_and_its_log_come_to_the_same(data: st.DataObject) -> None:
    partition = CONTROLLER / "__cluster_metadata-0"
    end = load(partition).as_of_offset
    offset = data.draw(st.integers(0, end))

    by_checkpoint, by_log = load(partition, as_of=offset), load(partition / LOG_NAME, as_of=offset)

    assert canonical(by_log.state) == canonical(by_checkpoint.state)
    assert by_log.voters == by_checkpoint.voters or by_log.voters is None


def test_voters_come_from_the_log() -> None:
    document = run("image", "show", "--offline", CONTROLLER, "--json").document

    assert 1 == document["kraftVersion"]
    assert [1, 2, 3] == [voter["id"] for voter in document["voters"]]
    assert all("CONTROLLER" == voter["endpoints"][0]["name"] for voter in document["voters"])


def test_a_checkpoint_by_itself(partition: Path) -> None:
    path = partition / "00000000000000000007-0000000001.checkpoint"

    document = run("image", "show", "--offline", path, "--json").document

    assert (7, 1, START_MS) == (document["asOfOffset"], document["epoch"], document["lastTimestamp"])
    assert {} == document["configs"]


def test_several_segments_are_one_log(tmp_path: Path) -> None:
    partition = write_log(tmp_path, a_history(), segment_bytes=250)

    assert len(list(partition.glob("*.log"))) > 3
    assert canonical(state_below(END_OFFSET)) == canonical(load(tmp_path).state)


def test_a_directory_of_the_first_voters_only(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=1\nlisteners=CONTROLLER://h:9093\nmetadata.log.dir={tmp_path / 'data'}\n")
    run("storage", "format", "-c", config, "-t", "cluster", "-s")

    document = run("image", "show", "--offline", tmp_path / "data", "--json").document

    assert (0, [1], 1) == (
        document["asOfOffset"],
        [each["id"] for each in document["voters"]],
        document["kraftVersion"],
    )


@pytest.mark.parametrize(
    ("offset", "words"), [(12, "ends at offset 11; 12 lies beyond it"), (4000, "4000 lies beyond")]
)
def test_refuses_an_offset_beyond_the_end(directory: Path, offset: int, words: str) -> None:
    ran = run("image", "show", "--offline", directory, "--as-of", offset)

    assert (1, "", True) == (ran.code, ran.out, words in ran.err)


def test_refuses_an_offset_before_the_first_checkpoint(tmp_path: Path) -> None:
    partition = write_log(tmp_path, a_history(), segment_bytes=250)
    write_checkpoint(partition, state_below(7), OffsetAndEpoch(epoch=1, offset=7))
    for path in [each for each in partition.glob("*.log") if int(each.stem) < 7]:
        path.unlink()

    ran = run("image", "show", "--offline", tmp_path, "--as-of", 5)

    assert 1 == ran.code
    assert "begins at offset 7: of what lies before, the first state that can be rebuilt is at 7" in ran.err
    assert canonical(state_below(END_OFFSET)) == canonical(load(tmp_path).state)
    assert (
        "begins with the state at offset 7; 5 lies"
        in run(
            *("image", "show", "--offline", partition / "00000000000000000007-0000000001.checkpoint", "--as-of", 5)
        ).err
    )


def test_a_gap_between_checkpoint_and_log_is_named(directory: Path, partition: Path) -> None:
    """As a copy has it that keeps old checkpoints and not the segments after them; a node refuses to start."""
    data = (partition / LOG_NAME).read_bytes()
    (partition / LOG_NAME).unlink()
    (partition / "00000000000000000009.log").write_bytes(data[-len(a_history()[-1]) :])

    for options in ([], ["--as-of", 8], ["--as-of", 10]):
        ran = run("image", "show", "--offline", directory, *options)

        assert (1, "") == (ran.code, ran.out)
        assert f"{directory}: offsets 7 to 8 are missing: the checkpoint ends at 7, the log begins at 9" in ran.err
    assert 7 == load(partition, as_of=7).as_of_offset


def test_a_log_of_kafka_that_begins_anywhere_after_its_checkpoint_is_refused(tmp_path: Path) -> None:
    """Wherever it begins: most records apply to a state that lacks those before them."""
    whole = CONTROLLER / "__cluster_metadata-0" / LOG_NAME
    (checkpoint,) = whole.parent.glob("*87-*.checkpoint")
    shutil.copy(checkpoint, tmp_path)
    end, data = int(checkpoint.name[:20]), whole.read_bytes()
    later = [(position, header.base_offset) for position, header in batches(data) if header.base_offset > end]

    assert len(later) > 10
    for position, base in later:
        segment = tmp_path / f"{base:020d}.log"
        segment.write_bytes(data[position:])
        ran = run("image", "show", "--offline", tmp_path)
        segment.unlink()

        assert (1, "") == (ran.code, ran.out)
        assert f"offsets {end} to {base - 1} are missing: the checkpoint ends at {end}" in ran.err


def test_damage_is_named_with_the_last_offset_before_it(directory: Path, partition: Path) -> None:
    position = sum(map(len, a_history()[:6]))
    flip(partition / LOG_NAME, position + 80)

    ran = run("image", "show", "--offline", directory, "--json")

    assert 1 == ran.code
    error = ran.document["error"]
    assert (str(partition / LOG_NAME), position) == (error["file"], error["position"])
    assert "--as-of 8 shows the state before" in error["message"]
    assert 8 == run("image", "show", "--offline", directory, "--as-of", 8, "--json").document["asOfOffset"]


@pytest.mark.parametrize("ms", [1 << 62, -(1 << 63)])
def test_a_timestamp_in_no_year_is_shown_as_its_number(tmp_path: Path, ms: int) -> None:
    last = data_batch(base_offset=END_OFFSET, epoch=2, timestamp_ms=ms, values=[encode_record(NoOpRecord(), 0)])
    write_log(tmp_path, [*a_history(), last])

    ran = run("image", "show", "--offline", tmp_path)

    assert (0, "") == (ran.code, ran.err)
    assert f"  last record     {ms} ms since 1970\n" in ran.out


def test_a_torn_tail_is_noted_and_the_rest_is_shown(directory: Path, partition: Path) -> None:
    (partition / DURABLE_MARK).unlink()
    path = partition / LOG_NAME
    path.write_bytes(path.read_bytes()[:-3])

    document = run("image", "show", "--offline", directory, "--json").document

    assert 9 == document["asOfOffset"]
    assert [True] == ["the log is torn at byte" in note for note in document["notes"]]


def test_a_checkpoint_without_its_footer_is_not_believed(directory: Path, partition: Path) -> None:
    """The log has what it says; where it has not (`--as-of` does not reach beyond the log), it is refused."""
    path = partition / "00000000000000000007-0000000001.checkpoint"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-75])
    why = f"{path}: no SnapshotFooter: the checkpoint was not written to its end"

    for offset in (7, END_OFFSET):
        found = load(directory, as_of=offset)

        assert canonical(state_below(offset)) == canonical(found.state)
        assert (None, [True]) == (found.checkpoint, [note.startswith(why) for note in found.notes])

    write_log(directory.parent / "short", a_history()[:4])
    for log in (directory.parent / "short" / "__cluster_metadata-0" / LOG_NAME, None):
        (partition / LOG_NAME).unlink()
        if log is not None:
            shutil.copy(log, partition)
        ran = run("image", "show", "--offline", directory)

        assert (1, "") == (ran.code, ran.out)
        assert f"quorate: {why}" in ran.err


def test_a_damaged_checkpoint_of_kafka_does_not_hide_the_log(tmp_path: Path) -> None:
    """The next older one is taken, or the log from its beginning; voters come from them, too."""
    partition = shutil.copytree(CONTROLLER, tmp_path / "node") / "__cluster_metadata-0"
    whole = load(partition)

    for count, path in enumerate(sorted(partition.glob("*[1-9]-*.checkpoint"), reverse=True), 1):
        flip(path, path.stat().st_size // 2)
        found = load(partition)

        assert (whole.as_of_offset, whole.voters, count) == (found.as_of_offset, found.voters, len(found.notes))
        assert canonical(whole.state) == canonical(found.state)
        assert found.notes[-1].startswith(f"{path}: ")
        assert path != found.checkpoint
    ran = run("image", "show", "--offline", partition)
    assert (0, count) == (ran.code, ran.out.count("the state is rebuilt without this checkpoint"))


def test_a_record_that_contradicts_the_log_is_named(tmp_path: Path) -> None:
    write_log(tmp_path, [*a_history(), batch(2, END_OFFSET, (RemoveTopicRecord(bytes(15) + b"\x63"), 0))])

    ran = run("image", "show", "--offline", tmp_path)

    assert 1 == ran.code
    assert f"RemoveTopicRecord at offset {END_OFFSET}: " in ran.err
    assert f"--as-of {END_OFFSET} shows the state before" in ran.err


def test_unknown_records_and_open_transactions_are_shown(tmp_path: Path) -> None:
    unknown, future = UnknownRecord(99, 7, b"\x01"), UnknownRecord(2, 63, b"\x02")
    begin, topic = BeginTransactionRecord("move"), TopicRecord("new", bytes(15) + b"\x63")
    write_log(tmp_path, [*a_history(), batch(2, END_OFFSET, (unknown, 7), (future, 63), (begin, 0), (topic, 0))])

    ran = run("image", "show", "--offline", tmp_path)

    assert (0, "") == (ran.code, ran.err)
    assert "  transaction     move, open since 13\n" in ran.out
    assert "a transaction is open since offset 13: its records are not shown" in ran.out
    assert "  new " not in ran.out
    assert "Unknown records (2)\n  api key  version  body\n  99       7        01\n  2        63       02\n" in ran.out


@pytest.mark.parametrize(
    ("features", "said"),
    [
        ({}, ["no metadata.version is finalized in it"]),
        ({"metadata.version": 33, "group.version": 1}, []),
        (
            {"metadata.version": 34, "group.version": 2, "moon.version": 1},
            [
                "group.version is at level 2; known here are 0 to 1, of another level records may be missing",
                "metadata.version is at level 34; known here are 7 to 33 (3.3-IV3 to 4.4-IV2), "
                "of another level records may be missing",
                "moon.version is at level 1; this feature is not known here",
            ],
        ),
    ],
    ids=["none", "known", "unknown"],
)
def test_levels_of_features_that_are_not_known_are_said_beside_the_state_and_by_verify(
    tmp_path: Path, features: dict[str, int], said: list[str]
) -> None:
    levels = [(FeatureLevelRecord(name, level), 0) for name, level in features.items()]
    write_log(tmp_path, [leader_change(1, 0), batch(1, 1, (TopicRecord("foo", TOPIC_ID), 0), *levels)], epoch=1)

    shown = run("image", "show", "--offline", tmp_path, "--json").document
    verified = run("log", "verify", tmp_path, "--json").document

    assert (said, True) == (shown["notes"], verified["sound"])
    assert said == [each["reason"] for each in verified["findings"] if "version" in each["reason"]]


def test_nothing_of_an_open_transaction_is_published_before_its_end(tmp_path: Path) -> None:
    begin, topic = BeginTransactionRecord("move"), TopicRecord("new", bytes(15) + b"\x63")
    inside = batch(2, END_OFFSET, (begin, 0), (topic, 0), (ConfigRecord(2, "foo.bar", "retention.ms", "7"), 0))
    write_log(tmp_path, [*a_history(), inside, batch(2, END_OFFSET + 3, (EndTransactionRecord(), 0))])

    before = run("image", "show", "--offline", tmp_path, "--json", "--as-of", END_OFFSET).document
    half = run("image", "show", "--offline", tmp_path, "--json", "--as-of", END_OFFSET + 3).document
    after = run("image", "show", "--offline", tmp_path, "--json").document

    told = ("asOfOffset", "transaction", "notes", "lastTimestamp")
    assert {"start": END_OFFSET, "name": "move"} == half["transaction"]
    assert [True] == ["its records are not shown" in note for note in half["notes"]]
    assert without(before, *told) == without(half, *told)
    assert (None, "1000") == (before["transaction"], before["configs"]["TOPIC"]["foo.bar"]["retention.ms"])
    assert ({"foo.bar", "new"}, "7") == (set(after["topics"]), after["configs"]["TOPIC"]["foo.bar"]["retention.ms"])


def test_what_an_open_transaction_says_is_shown_when_asked_for_and_said_to_be_open(tmp_path: Path) -> None:
    begin, topic = BeginTransactionRecord("move"), TopicRecord("new", bytes(15) + b"\x63")
    write_log(tmp_path, [*a_history(), batch(2, END_OFFSET, (begin, 0), (topic, 0))])

    document = run("image", "show", "--offline", tmp_path, "--json", "--with-open-transaction").document

    assert {"foo.bar", "new"} == set(document["topics"])
    said = f"a transaction is open since offset {END_OFFSET}: its records are shown, and a failover would abort them"
    assert [said] == document["notes"]


def without(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in keys}


def test_doubles_are_shown_as_kafka_prints_them(tmp_path: Path) -> None:
    """Kafka's controller takes quotas that JSON has no number for."""
    who = (ClientQuotaRecord.EntityData("user", "alice"),)
    values = {"a": math.inf, "b": -math.inf, "c": math.nan, "d": 1e7, "e": 0.0005}
    quotas = [(ClientQuotaRecord(entity=who, key=key, value=value), 0) for key, value in values.items()]
    write_log(tmp_path, [*a_history(), batch(2, END_OFFSET, *quotas)])

    texts = {"a": "Infinity", "b": "-Infinity", "c": "NaN", "d": "1.0E7", "e": "5.0E-4"}
    ran = run("image", "show", "--offline", tmp_path, "--json")
    dumped = run("log", "dump", tmp_path / "__cluster_metadata-0" / LOG_NAME)
    lines = run("log", "dump", "--json", tmp_path / "__cluster_metadata-0" / LOG_NAME).out.splitlines()
    explained = run("log", "dump", "--explain", "--from", END_OFFSET, tmp_path / "__cluster_metadata-0" / LOG_NAME).out

    (quota,) = json.loads(ran.out, parse_constant=pytest.fail)["clientQuotas"]
    assert {**texts, "d": 1e7, "e": 5e-4} == quota["quotas"]
    assert '"d": 1.0E7, "e": 5.0E-4' in ran.out
    for key, text in texts.items():
        shown = text if key in "de" else f'"{text}"'

        assert f'"key":"{key}","value":{shown},"remove":false' in dumped.out
        assert [True] == [f'"value": {shown}, ' in line for line in lines if f'"key": "{key}"' in line]
        assert f" {text}\n" in run("image", "show", "--offline", tmp_path).out
        assert text in explained


def test_what_is_for_all_and_who_leaves_are_told_in_the_words_of_the_audit(tmp_path: Path) -> None:
    leaves = BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=3, in_controlled_shutdown=1)
    for_all = ConfigRecord(BROKER, "", "min.insync.replicas", "2")
    write_log(tmp_path, [*a_history(), batch(2, END_OFFSET, (leaves, 1), (for_all, 0))])

    ran = run("image", "show", "--offline", tmp_path)

    assert (0, "") == (ran.code, ran.err)
    assert "  2   3             controlled shutdown  a " in ran.out
    assert "  BROKER  (default)  min.insync.replicas  2\n" in ran.out


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    user = UserScramCredentialRecord("alice", 1, b"salty-salt", b"stored-key", b"server-key", 4096)
    secret = ConfigRecord(4, "2", "listener.name.x.ssl.keystore.password", "hunter2")
    unknown = ConfigRecord(4, "2", "my.plugin.api.key", "topsecret2")
    write_log(tmp_path, [*a_history(), batch(2, END_OFFSET, (user, 0), (secret, 0), (unknown, 0))])

    for options in ([], ["--json"]):
        ran = run("image", "show", "--offline", tmp_path, *options)

        assert 0 == ran.code
        assert "alice" in ran.out
        assert "my.plugin.api.key" in ran.out
        assert [] == [word for word in ("hunter2", "topsecret2", "salty", "stored-key", "c3RvcmVk") if word in ran.out]


def test_a_name_cannot_write_on_the_terminal(tmp_path: Path) -> None:
    config = ConfigRecord(2, "foo.bar", "retention.ms", "a\x1b[2Jb\nc")
    write_log(tmp_path, [*a_history(), batch(2, END_OFFSET, (config, 0))])

    ran = run("image", "show", "--offline", tmp_path)

    assert "a\\u001b[2Jb\\nc" in ran.out


def test_refuses_a_file_without_a_state(directory: Path) -> None:
    ran = run("image", "show", "--offline", directory / "meta.properties")

    assert (1, True) == (ran.code, "holds no state" in ran.err)
