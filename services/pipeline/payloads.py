"""Parses JSON payloads with Arrow, in Python workers; `frames.parsed` does so in the JVM."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyspark.sql.pandas.types import to_arrow_schema

from kraft import Message
from quorate.wire.json_names import type_name
from services.pipeline.frames import struct_type

__all__ = ["parsed_payloads"]


def parsed_payloads(payloads: pa.Array, *records: type[Message]) -> pa.Table:
    """Returns a row for each payload, a record of one of these types, with the columns of `frames.struct_type`.

    Raises ValueError for a payload that is null or not the JSON of one record.
    """
    schema = to_arrow_schema(struct_type(*records))
    if not len(payloads):
        return schema.empty_table()
    kinds = ", ".join(map(type_name, records))
    if payloads.null_count:
        raise ValueError(
            f"{payloads.null_count} of {len(payloads)} payloads of {kinds} are null; each has to be one JSON object"
        )
    whole = pa.ListArray.from_arrays(pa.array([0, len(payloads)], pa.int32()), payloads)
    # A newline is escaped within JSON text, so it separates the texts.
    text = pc.binary_join(whole, "\n")[0].as_buffer()
    found = pj.read_json(
        pa.BufferReader(text),
        read_options=pj.ReadOptions(use_threads=False, block_size=text.size + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    if found.num_rows != len(payloads):
        raise ValueError(f"{len(payloads)} payloads of {kinds} are {found.num_rows} JSON objects; each has to be one")
    return found.combine_chunks()
