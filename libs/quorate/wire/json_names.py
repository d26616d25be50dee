"""The names of fields and record types in Kafka's JSON, as its own converters spell them."""

from __future__ import annotations

from kraft import Message

__all__ = ["json_name", "type_name"]


def json_name(field: str) -> str:
    """Returns a field's name in Kafka's camel case.

    >>> json_name("partition_id"), json_name("isr")
    ('partitionId', 'isr')
    """
    head, *rest = field.split("_")
    return head + "".join(part.capitalize() for part in rest)


def type_name(record: type[Message]) -> str:
    """Returns the type name that Kafka's converters use for a record class.

    >>> from quorate.records import PartitionChangeRecord
    >>> type_name(PartitionChangeRecord)
    'PARTITION_CHANGE_RECORD'
    """
    name = record.__name__
    return "".join(f"_{letter}" if letter.isupper() and at else letter for at, letter in enumerate(name)).upper()
