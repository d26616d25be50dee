"""Derives Spark types from the record schemas, and parses JSON payloads with them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
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
from quorate.wire.json_names import json_name, type_name
from quorate.wire.schema import Field, FieldType, Layout, layout_of

__all__ = ["parsed", "struct_type"]

_TYPES: Final[dict[FieldType, DataType]] = {
    FieldType.BOOL: BooleanType(),
    FieldType.INT8: IntegerType(),
    FieldType.INT16: IntegerType(),
    FieldType.INT32: IntegerType(),
    FieldType.INT64: LongType(),
    FieldType.UINT16: IntegerType(),
    FieldType.UINT32: LongType(),
    FieldType.FLOAT64: DoubleType(),
    FieldType.STRING: StringType(),
    FieldType.BYTES: StringType(),
    FieldType.RECORDS: StringType(),
    FieldType.UUID: StringType(),
}


def struct_type(*records: type[Message]) -> StructType:
    """Returns the struct type of all fields of these records, by Kafka's names; a shared name is one field.

    A field is null if the record's version does not have it, or if it is tagged and at its default.
    """
    fields: dict[str, StructField] = {}
    for record in records:
        for field in _struct(layout_of(record)).fields:
            assert fields.setdefault(field.name, field) == field, (record, field)
    return StructType(list(fields.values()))


def parsed(events: DataFrame, *records: type[Message]) -> DataFrame:
    """Selects the rows of these record types alone, and adds the parsed payload as column `r`."""
    named = [type_name(record) for record in records]
    return events.where(fn.col("type").isin(named)).withColumn("r", fn.from_json("payload", struct_type(*records)))


def _struct(layout: Layout) -> StructType:
    return StructType([StructField(json_name(field.name), _type(field)) for field in layout.fields])


def _type(field: Field) -> DataType:
    one = _struct(field.struct) if field.struct is not None else _TYPES[field.kind]
    return ArrayType(one) if field.array else one
