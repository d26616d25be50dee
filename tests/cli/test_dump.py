"""`quorate log dump`: what Kafka's own tool prints, every byte explained, and damage shown as far as it can be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.cli.anatomy import BytesPart, anatomy
from quorate.cli.explain import explained
from quorate.cli.reading import map_file
from quorate.errors import Corrupt
from quorate.records import RECORDS, NoOpRecord, TopicRecord, UnknownRecord, encode_record
from quorate.wire.batch import control_batch, data_batch, read_header
from quorate.wire.schema import layout_of
from tests.cli.directories import (
    END_OFFSET,
    FIXTURES,
    LOG_NAME,
    START_MS,
    a_history,
    batch,
    contents,
    flip,
    leader_change,
    run,
    run_apart,
    write_log,
)
from tests.strategies import instance

GOLDEN = Path(__file__).parent / "golden"
DUMPS = sorted(FIXTURES.rglob("*.dump.txt"))
"""What Kafka's own DumpLogSegments printed of the file beside it."""

UNKNOWN = UnknownRecord(api_key=99, version=7, body=b"\x01\x02\x03")
FUTURE = UnknownRecord(api_key=2, version=63, body=b"\x05name")


def written(tmp_path: Path, *batches: bytes) -> Path:
    """A log file of these batches."""
    path = tmp_path / LOG_NAME
    path.write_bytes(b"".join(batches))
    return path


def golden(name: str, found: str) -> None:
    """Compare with tests/cli/golden; QUORATE_REWRITE=1 writes what is found there instead."""
    path = GOLDEN / name
    if os.environ.get("QUORATE_REWRITE"):
        path.write_text(found)

    assert path.read_text() == found


@pytest.mark.parametrize("dumped", DUMPS, ids=lambda path: "/".join(path.parts[-3:]))
def test_prints_line_by_line_what_kafka_prints(dumped: Path) -> None:
    path = dumped.with_name(dumped.name.removesuffix(".dump.txt"))

    ran = run("log", "dump", "--show-secrets", path)

    assert (0, "") == (ran.code, ran.err)
    assert dumped.read_text() == ran.out.replace(f"{path.parent}/", "")


def test_there_are_dumps_of_kafka_to_compare_with() -> None:
    assert DUMPS


def test_every_byte_of_a_log_is_explained(tmp_path: Path) -> None:
    path = written(tmp_path, *a_history(), batch(2, 11, (UNKNOWN, 7), (FUTURE, 63)))

    ran = run("log", "dump", "--explain", path)

    assert (0, "") == (ran.code, ran.err)
    golden("explain.txt", ran.out.replace(f"{tmp_path}/", ""))


def test_the_text_of_a_log(tmp_path: Path) -> None:
    path = written(tmp_path, *a_history(), batch(2, 11, (UNKNOWN, 7), (FUTURE, 63)))

    golden("dump.txt", run("log", "dump", path).out.replace(f"{tmp_path}/", ""))


def test_json_lines_say_the_same(tmp_path: Path) -> None:
    path = written(tmp_path, *a_history())

    documents = run("log", "dump", "--json", path).documents

    kinds = [each["kind"] for each in documents]
    assert (["file", "log"], 8, 11) == (kinds[:2], kinds.count("batch"), kinds.count("record"))
    assert list(range(11)) == [each["offset"] for each in documents if each["kind"] == "record"]
    topic = next(each["payload"] for each in documents if each.get("offset") == 5)
    data = {"name": "foo.bar", "topicId": "hJvfCk0kQ3KiQ6rECn5K3g"}
    assert {"type": "TOPIC_RECORD", "version": 0, "data": data} == topic
    assert all(each["isvalid"] for each in documents if each["kind"] == "batch")


def test_only_the_offsets_that_are_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, *a_history())

    documents = run("log", "dump", "--json", path, "--from", 2, "--to", 6).documents

    assert [2, 3, 4, 5] == [each["offset"] for each in documents if each["kind"] == "record"]
    assert [1, 3, 4, 5] == [each["baseOffset"] for each in documents if each["kind"] == "batch"]


def test_what_is_not_known_is_shown_raw(tmp_path: Path) -> None:
    """An unknown key and a version of the future: shown, and no error."""
    path = written(tmp_path, leader_change(1, 0), batch(1, 1, (UNKNOWN, 7), (FUTURE, 63)))

    ran = run("log", "dump", "--json", path)

    assert (0, "") == (ran.code, ran.err)
    expected = [
        {"type": "UNKNOWN_RECORD", "apiKey": 99, "version": 7, "data": "AQID"},
        {"type": "UNKNOWN_RECORD", "apiKey": 2, "version": 63, "data": "BW5hbWU="},
    ]
    assert expected == [each["payload"] for each in ran.documents if "payload" in each]


def test_an_unknown_control_record_is_shown_raw(tmp_path: Path) -> None:
    control = control_batch(base_offset=0, epoch=1, timestamp_ms=START_MS, records=[(42, b"\0\0abc")])  # type: ignore[list-item]  # no type of ours

    ran = run("log", "dump", written(tmp_path, control))

    assert 0 == ran.code
    assert ran.out.endswith('UNKNOWN(42) {"version":0,"data":"AABhYmM="}\n')


def test_a_flipped_byte_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    history = a_history()
    path = written(tmp_path, *history)
    position = len(history[0])
    flip(path, path.read_bytes().index(b"metadata.version"))  # in the second batch

    ran = run("log", "dump", path, "--json")

    assert 1 == ran.code
    assert f"quorate: {path}: batch at offset 1 has checksum" in ran.err
    assert ran.err.endswith(f"at byte {position}\n")
    *shown, last = ran.documents
    assert [False] == [each["isvalid"] for each in shown if each.get("baseOffset") == 1]
    assert "letadata.version" in ran.out
    assert 10 == shown[-1]["offset"]
    assert (str(path), position) == (last["error"]["file"], last["error"]["position"])


def test_a_cut_tail_is_named_after_what_is_whole(tmp_path: Path) -> None:
    history = a_history()
    path = written(tmp_path, *history)
    path.write_bytes(path.read_bytes()[:-10])
    last = sum(map(len, history[:-1]))

    ran = run("log", "dump", path)

    assert 1 == ran.code
    assert "| offset: 8 " in ran.out
    size = len(history[-1])
    assert f"quorate: {path}: batch of {size} bytes, {size - 10} are left at byte {last}\n" == ran.err


def test_a_record_that_does_not_parse_is_named(tmp_path: Path) -> None:
    bad = data_batch(
        base_offset=0, epoch=1, timestamp_ms=START_MS, values=[b"\x01\x02\x00\xff", encode_record(NoOpRecord(), 0)]
    )
    path = written(tmp_path, bad, batch(1, 2, (NoOpRecord(), 0)))

    ran = run("log", "dump", path)

    assert 1 == ran.code
    assert "record at offset 0: TopicRecord.name" in ran.err
    assert "| offset: 2 " in ran.out


def test_indexes_and_small_files_of_a_directory(tmp_path: Path) -> None:
    records = [batch(1, offset, (NoOpRecord(), 0)) for offset in range(1, 200)]
    partition = write_log(tmp_path / "data", [leader_change(1, 0), *records], epoch=1)
    before = contents(tmp_path)

    ran = run("log", "dump", tmp_path / "data")

    assert (0, "") == (ran.code, ran.err)
    assert f"Dumping {partition / '00000000000000000000.index'}\noffset: 57 position: 4123\n" in ran.out
    assert f"Dumping {partition / 'leader-epoch-checkpoint'}\n0\n1\n1 0\n" in ran.out
    assert '"leaderEpoch":1' in ran.out
    assert "cluster.id=" in ran.out
    assert before == contents(tmp_path)


def test_an_index_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000100.index"
    path.write_bytes((5).to_bytes(4, "big") + (4123).to_bytes(4, "big") + bytes(80))

    ran = run("log", "dump", "--explain", path)

    rows = [line.split() for line in ran.out.splitlines()]
    assert ["00000000", "00", "00", "00", "05", "relativeOffset", "int32", "5", "offset", "105"] == rows[2]
    assert [
        "00000004",
        "00",
        "00",
        "10",
        "1b",
        "position",
        "int32",
        "4123",
        "of",
        "the",
        "batch",
        "in",
        "the",
        ".log",
    ] == rows[3]
    assert 4 == len(rows)


def test_explained_parts_as_json(tmp_path: Path) -> None:
    path = written(tmp_path, leader_change(1, 0))

    parts = run("log", "dump", "--explain", "--json", path).documents

    crc = next(each for each in parts if each["name"] == "crc")
    assert (17, 4, "uint32") == (crc["position"], crc["size"], crc["type"])
    assert path.read_bytes().hex() == "".join(each["bytes"] for each in parts)


def test_refuses_what_is_no_file_of_a_log(tmp_path: Path) -> None:
    other = tmp_path / "readme.md"
    other.write_text("hello")

    assert "is not named like a file of a metadata log" in run("log", "dump", other).err
    assert "holds no file of a metadata log" in run("log", "dump", tmp_path).err


@pytest.mark.parametrize("name", [LOG_NAME, "nowhere"])
@pytest.mark.parametrize("command", [("log", "dump"), ("log", "verify"), ("image", "show", "--offline")])
def test_what_does_not_exist_has_no_wrong_name(tmp_path: Path, command: tuple[str, ...], name: str) -> None:
    missing = run(*command, tmp_path / name)

    assert (1, f"quorate: {tmp_path / name}: No such file or directory\n") == (missing.code, missing.err)


@pytest.mark.parametrize("kind", sorted(RECORDS))
def test_every_record_type_is_explained_to_its_last_byte(kind: int) -> None:
    record = RECORDS[kind]
    for version in layout_of(record).versions:
        data = batch(1, 0, (record(), version))
        parts, damage = anatomy(memoryview(data), 0, read_header(data), sound=True)

        assert damage is None
        assert tiled(parts, len(data))
        assert any(part.name == f"{record.__name__} v{version}" for part in parts)


@st.composite
def any_batch(draw: st.DrawFn) -> bytes:
    """A batch of records with anything in them."""
    records = []
    for record in draw(st.lists(st.sampled_from(list(RECORDS.values())), min_size=1, max_size=4)):
        version = draw(st.sampled_from(layout_of(record).versions))
        records.append((draw(instance(layout_of(record), version)), version))
    return batch(draw(st.integers(0, 9)), draw(st.integers(0, 1 << 40)), *records)


@given(any_batch())
def test_the_leaves_are_every_byte_exactly_once(data: bytes) -> None:
    parts, damage = anatomy(memoryview(data), 0, read_header(data), sound=True)

    assert damage is None
    assert tiled(parts, len(data))
    assert explained(parts, memoryview(data))


@given(any_batch(), st.data())
def test_damage_is_explained_to_where_it_is(data: bytes, draw: st.DataObject) -> None:
    """With any byte behind the header changed the leaves are still every byte: what cannot be read is the last one."""
    broken = bytearray(data)
    broken[draw.draw(st.integers(61, len(data) - 1))] ^= draw.draw(st.integers(1, 255))

    parts, damage = anatomy(memoryview(broken), 0, read_header(broken), sound=False)

    assert tiled(parts, len(data))
    assert damage is None or isinstance(damage, Corrupt)


@given(st.integers(0, 1200), st.binary(max_size=300))
def test_any_bytes_end_in_an_answer(tmp_path_factory: pytest.TempPathFactory, at: int, noise: bytes) -> None:
    """Never a traceback, whatever lies in the file: an exception would come through the door."""
    path = tmp_path_factory.mktemp("noise") / LOG_NAME
    path.write_bytes(b"".join(a_history())[:at] + noise)

    for options in ([], ["--explain"], ["--json"]):
        assert run("log", "dump", path, *options).code in (0, 1)


def tiled(parts: list[BytesPart], size: int, start: int = 0) -> bool:
    """Are the leaves every byte from `start` on, in order, none twice?"""
    at = start
    for part in parts:
        if part.position != at:
            return False
        at += part.size
    return at == start + size


def test_a_terminal_gets_colours_and_a_pipe_does_not(tmp_path: Path) -> None:
    path = written(tmp_path, leader_change(1, 0))

    plain = run_apart("log", "dump", "--explain", path)
    coloured = run_apart("log", "dump", "--explain", path, FORCE_COLOR="1")

    assert "\x1b[" not in plain.out
    assert "\x1b[" in coloured.out


def test_reading_is_lazy(tmp_path: Path) -> None:
    """A file of no bytes is a log without batches."""
    path = written(tmp_path)

    assert b"" == bytes(map_file(path))
    assert (0, f"Dumping {path}\nLog starting offset: 0\n") == run("log", "dump", path)[:2]


BATCHES = list(a_history())
OUT_OF_ORDER = {
    "missing": ([0, 1, 3, 4], ["2 is followed by 4"]),
    "repeated": ([0, 1, 1, 2], ["2 is followed by 1"]),
    "reordered": ([0, 2, 1, 3], ["0 is followed by 3", "2 is followed by 4", "3 is followed by 1"]),
}


@pytest.mark.parametrize("what", OUT_OF_ORDER)
def test_batches_that_do_not_follow_each_other_are_named(tmp_path: Path, what: str) -> None:
    """In the words of Kafka's tool: `test_against_kafka` has both print them."""
    order, told = OUT_OF_ORDER[what]
    path = tmp_path / LOG_NAME
    path.write_bytes(b"".join(BATCHES[at] for at in order))

    ran = run("log", "dump", path)
    *_, error = run("log", "dump", path, "--json").documents

    assert 1 == ran.code
    assert [f"Non-consecutive offsets in {path}", *(f"  {pair}" for pair in told)] == ran.err.splitlines()[:-1]
    assert f"quorate: {path}: non-consecutive offsets: {'; '.join(told)}" == ran.err.splitlines()[-1]
    assert f"non-consecutive offsets: {'; '.join(told)}" == error["error"]["reason"]


def test_what_the_terminal_cannot_say_is_escaped(tmp_path: Path) -> None:
    topic = TopicRecord("caf\u00e9-\u65e5\u672c", bytes(15) + b"\x63")
    path = write_log(tmp_path, [*a_history(), batch(2, END_OFFSET, (topic, 0))]) / LOG_NAME

    for command in (
        ("log", "dump", path),
        ("image", "show", "--offline", tmp_path),
        ("log", "dump", path, "--explain"),
    ):
        ran = run_apart(*command, PYTHONIOENCODING="ascii", LC_ALL="C")

        assert (0, "") == (ran.code, ran.err)
        assert "\\u65e5\\u672c" in ran.out
    assert "caf\\xe9" in run_apart("log", "dump", tmp_path / "caf\u00e9.log", PYTHONIOENCODING="ascii", LC_ALL="C").err
