"""Our bytes of a message are those of Kafka's own serializer, and we read from them what it reads."""

from __future__ import annotations

import importlib
import json
import re
from typing import Final

import pytest

from kraft import Message
from quorate.protocol import all_apis
from quorate.records import CONTROL_RECORDS, RECORDS, decode_record, encode_record
from quorate.wire.codec import decode, encode
from quorate.wire.primitives import uvarint
from quorate.wire.protobuf import json_form
from quorate.wire.schema import layout_of
from tests.interop.kafka import golden
from tests.interop.kafka.release import OPERATIONS_POM, absent
from tests.interop.same import same_fields

LINES = golden.kept()
CONTROL = {record.__name__: record for record in CONTROL_RECORDS.values()}
METADATA = {record.__name__: record for record in RECORDS.values()}
LATER: Final = {"UnregisterControllerRecord"}
"""Records of our schema that the release does not have yet."""


def named(line: golden.Line) -> str:
    return f"{line['type']} v{line['version']} {line['instance']}"


def class_of(line: golden.Line) -> type[Message]:
    match line["kind"]:
        case "control":
            return CONTROL[line["type"]]
        case "metadata":
            return METADATA[line["type"]]
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", line["type"]).lower()
    module = f"kraft.protocol.{name}" if line["kind"] == "protocol" else f"kraft.api.{name.rpartition('_')[0]}"
    found: type[Message] = getattr(importlib.import_module(module), line["type"])
    return found


@pytest.mark.parametrize("line", LINES, ids=named)
def test_decodes_to_what_kafka_meant(line: golden.Line) -> None:
    kind = class_of(line)
    found = decode(kind, bytes.fromhex(line["hex"]), line["version"])

    same_fields(line["json"], json_form(found), json_form(kind()), line["type"])


@pytest.mark.parametrize("line", LINES, ids=named)
def test_encodes_to_kafkas_bytes(line: golden.Line) -> None:
    found = decode(class_of(line), bytes.fromhex(line["hex"]), line["version"])

    assert line["hex"] == encode(found, line["version"]).hex()


@pytest.mark.parametrize("line", [line for line in LINES if line["instance"] == "default"], ids=named)
def test_a_message_made_without_arguments_is_kafkas_default(line: golden.Line) -> None:
    assert line["hex"] == encode(class_of(line)(), line["version"]).hex()


@pytest.mark.parametrize("line", [line for line in LINES if line["kind"] == "metadata"], ids=named)
def test_the_frame_of_a_record_names_its_key_and_version(line: golden.Line) -> None:
    framed = b"\x01" + uvarint(line["apiKey"]) + uvarint(line["version"]) + bytes.fromhex(line["hex"])
    found = decode_record(framed)

    assert type(found) is METADATA[line["type"]]
    assert framed == encode_record(found, line["version"])


def test_every_version_of_the_release_is_spoken() -> None:
    theirs = {(line["type"], line["version"]) for line in LINES}
    ours = {(line["type"], version) for line in LINES for version in layout_of(class_of(line)).versions}

    assert theirs <= ours, theirs - ours
    assert {line["type"] for line in LINES if line["kind"] == "metadata"} == METADATA.keys() - LATER
    assert {line["type"] for line in LINES if line["kind"] == "control"} == CONTROL.keys()
    assert {line["apiKey"] for line in LINES if line["kind"] == "request"} == set(golden.API_KEYS)


@pytest.mark.interop
@pytest.mark.skipif(absent() is not None, reason=absent() or "")
def test_the_release_still_writes_the_kept_lines() -> None:
    assert [json.loads(line) for line in golden.asked().splitlines()] == LINES


@pytest.mark.interop
@pytest.mark.skipif(absent() is not None, reason=absent() or "")
def test_the_newest_release_writes_what_we_write() -> None:
    """In every version of every API of ours, those that 4.3.1 does not have among them."""
    lines = [json.loads(line) for line in golden.asked(OPERATIONS_POM, [*all_apis()]).splitlines()]
    spoken = {(line["type"], line["version"]) for line in lines}
    ours = {
        (message.__name__, version)
        for api in all_apis().values()
        for message in (api.request, api.response)
        for version in api.versions
    }

    assert ours <= spoken, ours - spoken
    for line in lines:
        found = decode(class_of(line), bytes.fromhex(line["hex"]), line["version"])
        assert line["hex"] == encode(found, line["version"]).hex(), named(line)
        same_fields(line["json"], json_form(found), json_form(type(found)()), line["type"])
