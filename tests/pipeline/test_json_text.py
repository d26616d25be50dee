"""The JSON text of a record is Kafka's own: equal to what the dump writes, and it can be read back."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from quorate.cli.record_json import shown_records
from quorate.doubles import dumps
from quorate.pipeline.json_text import from_document, writer
from quorate.records import RECORDS, UnknownRecord, decode_record, encode_record, frame_of
from quorate.wire.batch import batches, data_values
from quorate.wire.json_names import type_name

FIXTURES = Path(__file__).parents[1] / "interop" / "fixtures"
FILES = sorted(path for path in FIXTURES.rglob("*") if path.suffix in (".log", ".checkpoint"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-4:]))
def test_every_record_of_a_real_cluster_reads_as_the_dump_shows_it(path: Path) -> None:
    data = path.read_bytes()
    expected, found = [], []
    for position, header in batches(data):
        if not header.is_control:
            shown = shown_records(memoryview(data), position, header, with_secrets=True)
            expected += [json.loads(dumps(each.document)) for each in shown]
            found += [document_of(value) for value in data_values(data, position, header)]

    assert expected == found


@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-4:]))
def test_what_is_written_can_be_read_back(path: Path) -> None:
    data = path.read_bytes()
    for position, header in batches(data):
        for value in [] if header.is_control else data_values(data, position, header):
            record = decode_record(value)
            _, version, _ = frame_of(value)

            assert record == from_document(type(record), version, json.loads(writer(type(record), version)(record)))


@pytest.mark.parametrize("record", RECORDS.values(), ids=lambda record: record.__name__)
def test_every_record_in_every_version_at_its_defaults(record: type) -> None:
    from quorate.wire.schema import layout_of

    for version in layout_of(record).versions:
        text = writer(record, version)(record())

        assert record() == from_document(record, version, json.loads(text)), text


def test_names_of_anybody_are_strings_of_json() -> None:
    from quorate.records import TopicRecord

    name = 'a "quoted"\n\\ name, ü and \u0000'

    assert name == json.loads(writer(TopicRecord, 0)(TopicRecord(name)))["name"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(math.inf, '"Infinity"'), (-math.inf, '"-Infinity"'), (math.nan, '"NaN"'), (1e7, "1.0E7"), (0.5, "0.5")],
)
def test_a_double_is_as_kafka_prints_it_and_is_read_back(value: float, text: str) -> None:
    from quorate.records import ClientQuotaRecord

    record = ClientQuotaRecord(entity=(ClientQuotaRecord.EntityData("user", "alice"),), key="rate", value=value)
    raw = encode_record(record, 0)

    assert f'"value":{text},' in writer(ClientQuotaRecord, 0)(record)
    back = from_document(ClientQuotaRecord, 0, json.loads(writer(ClientQuotaRecord, 0)(record)))
    assert raw == encode_record(back, 0)


def test_a_field_that_the_version_has_not_is_refused() -> None:
    from quorate.records import TopicRecord

    with pytest.raises(ValueError, match="TopicRecord version 0 has no field colour"):
        from_document(TopicRecord, 0, {"name": "orders", "colour": "red"})


def document_of(value: bytes) -> object:
    """As `cli.record_json` lays a record out."""
    record = decode_record(value)
    assert not isinstance(record, UnknownRecord), record
    key, version, _ = frame_of(value)
    data = json.loads(writer(RECORDS[key], version)(record))
    return {"type": type_name(RECORDS[key]), "version": version, "data": data}
