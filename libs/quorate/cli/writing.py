"""Sends one write to the controllers, or has it tried, and tells each of its results by name."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from google.protobuf.json_format import MessageToDict

from kraft.service.admin_pb2 import AdminRequest, AdminResponse, ProposedRecord
from kraft.service.controller_pb2 import DESCRIPTOR
from quorate import records
from quorate.cli.controller_call import ask_servers
from quorate.cli.documents import is_document, print_document, print_lines
from quorate.cli.failures import Failed, Misused
from quorate.cli.grpc_call import Servers
from quorate.cli.grpcurl import grpcurl_line
from quorate.cli.image import columns
from quorate.cli.messages import Method, method_of, parsed
from quorate.cli.printable import printable
from quorate.cli.record_json import message_json
from quorate.cli.write import Json, Write
from quorate.doubles import dumps
from quorate.errors import error_name
from quorate.wire.protobuf import to_struct
from quorate.wire.schema import layout_of

__all__ = ["Asked", "do"]

REQUEST_ID_BYTES: Final = 16
CODE: Final = "error_code"
WORDS: Final = "error_message"
SUBMIT: Final = "Submit"
CONTROLLER: Final = DESCRIPTOR.services_by_name["Controller"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How a write is asked for: the options that each of them has."""

    controller: str | None
    command_config: Path | None
    dry_run: bool
    print_grpcurl: bool
    seconds_max: float
    output: str

    def servers(self) -> Servers:
        """Returns the controllers to write to. Raises Misused if none is given."""
        if self.controller is None:
            raise Misused(
                "give --controller HOST:PORT,…: writes go to a controller, which passes them to the active one"
            )
        return Servers(option="--controller", named=self.controller, command_config=self.command_config)


class Result(NamedTuple):
    """The result of one thing that was asked for; `code` is Kafka's number of the error, 0 if nothing is wrong."""

    name: str
    code: int
    message: str
    shown: Json
    is_none: bool = False
    """Whether it stands for there being nothing."""


def do(write: Write, asked: Json, how: Asked) -> bool:
    """Sends a write, or with `dry_run` has it tried, and prints its results; returns whether none of them is an error.

    With `print_grpcurl` it only prints grpcurl's line for it. Raises Misused, Failed if it is refused as a whole,
    Unreached if no controller answers in time, OSError.
    """
    if how.dry_run and not write.is_enveloped:
        raise Misused(f"--dry-run: {write.api} cannot be tried: it has no validate_only, in Kafka neither")
    servers = how.servers()
    method, request = _enveloped(write, asked, how) if write.is_enveloped else _plain(write, asked, how)
    if how.print_grpcurl:
        if write.has_secret:
            raise Misused(
                "--print-grpcurl: the line would have what is as good as a password, for all to read who list processes"
            )
        sys.stdout.write(grpcurl_line(servers, method, request) + "\n")
        return True
    if write.is_enveloped and not how.dry_run:
        request["request_id"] = secrets.token_bytes(REQUEST_ID_BYTES)  # a retry is answered as the first call
    message = _message(method, request)
    call = partial(_call, method, message)
    answer = ask_servers(servers, call, within_s=how.seconds_max, may_repeat=write.is_enveloped)
    proposed: Sequence[ProposedRecord] = ()
    if isinstance(answer, AdminResponse):
        _require_done(answer)
        proposed, answer = answer.records, getattr(answer, answer.WhichOneof("response") or "")
    results = list(_results(write, asked, answer))
    if not results:
        results = [Result(", ".join(write.subjects(asked)), 0, "", {}, is_none=True)]
    documents = [_record_json(each) for each in proposed]
    if is_document(how.output):
        print_document(_json(write, how, results, documents), how.output)
    else:
        print_lines(_text(write, how, results, documents))
    return all(_is_fine(write, each) for each in results)


def _enveloped(write: Write, asked: Json, how: Asked) -> tuple[Method, Json]:
    """Returns Submit and its request, in JSON's values."""
    (field,) = (
        each
        for each in AdminRequest.DESCRIPTOR.oneofs_by_name["request"].fields
        if each.message_type is not None and each.message_type.name == f"{write.api}Request"
    )
    tried: Json = {"validate_only": True} if how.dry_run else {}
    return CONTROLLER.methods_by_name[SUBMIT], {**tried, field.name: _in_time(field.message_type, asked, how)}


def _plain(write: Write, asked: Json, how: Asked) -> tuple[Method, Json]:
    method = CONTROLLER.methods_by_name[write.api]
    return method, _in_time(method.input_type, asked, how)


def _in_time(shape: Any, asked: Json, how: Asked) -> Json:
    has_time = "timeout_ms" in shape.fields_by_name
    return {**asked, "timeout_ms": int(how.seconds_max * 1000)} if has_time else asked


def _message(method: Method, request: Json) -> Any:
    request_id = request.pop("request_id", b"")
    message = parsed(method.input_type, request)
    if request_id:
        message.request_id = request_id
    return message


def _call(method: Method, message: Any, channel: Any, left_s: float) -> Any:
    return method_of(channel, method)(message, timeout=left_s)


def _require_done(answer: AdminResponse) -> None:
    """Raises Failed for a refusal in the envelope."""
    if answer.HasField("error"):
        raise Failed(f"{error_name(answer.error.error_code)}: {answer.error.message}")


def _results(write: Write, asked: Json, answer: Any) -> Iterator[Result]:
    """Yields the results in an answer: each message in it that has an error code, the innermost ones."""
    subjects = write.subjects(asked)
    yield from _within(write, subjects, answer, (), None)


def _within(
    write: Write, subjects: Sequence[str], message: Any, above: tuple[str, ...], place: int | None
) -> Iterator[Result]:
    fields = message.DESCRIPTOR.fields_by_name
    names = (*above, *(str(getattr(message, each)) for each in write.named_by if each in fields))
    inner = [each.name for each in message.DESCRIPTOR.fields if _has_results(each)]
    code = getattr(message, CODE, 0)
    found = [(name, number, each) for name in inner for number, each in enumerate(getattr(message, name))]
    if code == 0 and found:
        for _, number, each in found:
            yield from _within(write, subjects, each, names, number)
    elif CODE in fields:
        is_none = code == 0 and bool(inner) and bool(write.if_none)
        name = _name(write, subjects, message, names, place)
        yield Result(name, code, getattr(message, WORDS, ""), _shown(write, message), is_none)


def _has_results(field: Any) -> bool:
    """Returns whether a field is a list of messages that have an error code, or such lists."""
    if not field.is_repeated or field.message_type is None:
        return False
    return CODE in field.message_type.fields_by_name or any(map(_has_results, field.message_type.fields))


def _name(write: Write, subjects: Sequence[str], message: Any, names: tuple[str, ...], place: int | None) -> str:
    if write.named is not None and "matching_acls" not in message.DESCRIPTOR.fields_by_name:
        return write.named(_fields(message))
    if any(names):
        return "-".join(names)
    return ", ".join(subjects) if place is None or place >= len(subjects) else subjects[place]


def _fields(message: Any) -> Json:
    return MessageToDict(message, preserving_proto_field_name=True, use_integers_for_enums=True)


def _shown(write: Write, message: Any) -> Json:
    told: Mapping[str, Any] = _fields(message)
    return {name: told[name] for name in write.shown if name in told}


def _is_fine(write: Write, result: Result) -> bool:
    return result.code == 0 or error_name(result.code) in write.fine


def _text(write: Write, how: Asked, results: Sequence[Result], documents: Sequence[Json]) -> Iterator[str]:
    yield from columns([[each.name, _verdict(write, how, each)] for each in results])
    if how.dry_run:
        yield "would write:" if documents else "would write nothing"
        for each in documents:
            yield f"  {printable(dumps(each))}"


def _verdict(write: Write, how: Asked, result: Result) -> str:
    if result.code:
        return f"{error_name(result.code)}: {result.message}" if result.message else error_name(result.code)
    if result.is_none:
        return write.if_none or "no result"
    done = f"would be {write.done}" if how.dry_run else write.done
    return "  ".join([done, *(f"{name}={value}" for name, value in result.shown.items())])


def _json(write: Write, how: Asked, results: Sequence[Result], documents: Sequence[Json]) -> dict[str, Any]:
    return {
        "api": write.api,
        "dryRun": how.dry_run,
        "results": [
            {
                "name": each.name,
                "error": error_name(each.code) if each.code else None,
                "message": each.message or None,
                "done": each.code == 0 and not each.is_none and not how.dry_run,
                **each.shown,
            }
            for each in results
        ],
        **({"records": list(documents)} if how.dry_run else {}),
    }


def _record_json(proposed: ProposedRecord) -> Json:
    """Returns a record that would be written, as the metadata log's dump has it."""
    name = proposed.record.TypeName().rpartition(".")[2]
    message = layout_of(getattr(records, name)).protobuf()
    proposed.record.Unpack(message)
    return message_json(to_struct(message), proposed.version)
