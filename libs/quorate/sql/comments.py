"""The comments of the protos on messages and fields, which say what each column is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet

__all__ = ["comment_of"]

MESSAGES = FileDescriptorProto.MESSAGE_TYPE_FIELD_NUMBER
NESTED = DescriptorProto.NESTED_TYPE_FIELD_NUMBER
FIELDS = DescriptorProto.FIELD_FIELD_NUMBER


def comment_of(name: str) -> str:
    """Returns the comment on a message or field by its full name, in one line; "" if it has none.

    >>> comment_of("kraft.metadata.PartitionRecord.isr")
    'The in-sync replicas.'
    """
    return _comments().get(name, "")


@cache
def _comments() -> Mapping[str, str]:
    described = FileDescriptorSet.FromString(resources.files("kraft").joinpath("schema.binpb").read_bytes())
    return {name: text for file in described.file for name, text in _of_file(file)}


def _of_file(file: FileDescriptorProto) -> Iterator[tuple[str, str]]:
    places = {
        tuple(each.path): " ".join(each.leading_comments.split())
        for each in file.source_code_info.location
        if each.leading_comments
    }
    for number, message in enumerate(file.message_type):
        yield from _of_message(message, f"{file.package}.{message.name}", (MESSAGES, number), places)


def _of_message(
    message: DescriptorProto, name: str, path: tuple[int, ...], places: Mapping[tuple[int, ...], str]
) -> Iterator[tuple[str, str]]:
    yield name, places.get(path, "")
    for number, field in enumerate(message.field):
        yield f"{name}.{field.name}", places.get((*path, FIELDS, number), "")
    for number, nested in enumerate(message.nested_type):
        yield from _of_message(nested, f"{name}.{nested.name}", (*path, NESTED, number), places)
