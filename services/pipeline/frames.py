"""Spark's types of the records, off their descriptors: what the JSON of a payload is parsed with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from kraft import Message
from quorate.pipeline.json_text import json_name, type_name
from quorate.wire.schema import Field, Kind, Layout, layout_of

__all__ = ["parsed", "struct_type"]

_TYPES: Final[dict[Kind, DataType]] = {
    Kind.BOOL: BooleanType(),
    Kind.INT8: IntegerType(),
    Kind.INT16: IntegerType(),
    Kind.INT32: IntegerType(),
    Kind.INT64: LongType(),
    Kind.UINT16: IntegerType(),
    Kind.UINT32: LongType(),
    Kind.FLOAT64: DoubleType(),
    Kind.STRING: StringType(),
    Kind.BYTES: StringType(),
    Kind.RECORDS: StringType(),
    Kind.UUID: StringType(),
}


def struct_type(*records: type[Message]) -> StructType:
    """All fields of these records, by Kafka's names; a name that several have is one field.

    What a record's version has not, or a tagged field at its default, is null.
    """
    fields: dict[str, StructField] = {}
    for record in records:
        for field in _struct(layout_of(record)).fields:
            assert fields.setdefault(field.name, field) == field, (record, field)
    return StructType(list(fields.values()))


def parsed(events: DataFrame, *records: type[Message], only: Sequence[str] = ()) -> DataFrame:
    """The rows of these records, with the payload's fields (`only` these, if any are named) in the column `r`."""
    named = [type_name(record) for record in records]
    every = struct_type(*records)
    wanted = StructType([every[name] for name in only]) if only else every
    payload: Column = fn.from_json("payload", wanted)
    return events.where(fn.col("type").isin(named)).withColumn("r", payload)


def _struct(layout: Layout) -> StructType:
    return StructType([StructField(json_name(field.name), _type(field)) for field in layout.fields])


def _type(field: Field) -> DataType:
    one = _struct(field.struct) if field.struct is not None else _TYPES[field.kind]
    return ArrayType(one) if field.array else one
