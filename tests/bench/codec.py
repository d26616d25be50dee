"""P11: how fast each record of the metadata log is read and written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from random import Random
from typing import Any, Final

from kraft import Message
from quorate.records import RECORDS, PartitionChangeRecord, PartitionRecord, decode_record, encode_record
from quorate.wire.schema import Field, FieldType, Layout, layout_of, struct_class
from tests.bench.measure import Table, cells, rate
from tests.bench.synthetic import SEED, Shape, topics

COUNT: Final = 20_000
"""Records of a kind in one measurement."""
DIFFERENT: Final = 500
"""How many of them are different: a record is not read twice in a row, as it never is in a log."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Records of one kind, to be read and written: one line of the table."""

    what: str
    records: Sequence[Message]
    version: int


def run() -> list[Table]:
    """One table for what a log is full of, one for all records with made-up values."""
    laid_down = [each for each in islice(topics(Shape(partitions=COUNT)), COUNT) if isinstance(each, PartitionRecord)]
    common = [
        Sample(f"PartitionRecord v{version}", [_as_of(record, version) for record in laid_down], version)
        for version in layout_of(PartitionRecord).versions
    ]
    shrunk = [PartitionChangeRecord(each.partition_id, each.topic_id, isr=each.isr[1:]) for each in laid_down]
    common.append(Sample("PartitionChangeRecord v2, ISR", shrunk, 2))
    others = [_made_up(record) for record in sorted(RECORDS.values(), key=lambda record: record.__name__)]
    return [
        _table("P11: codec, partitions of RF 3 on 100 brokers; target 500 k/s decode, 550 k/s encode", common),
        _table("Codec, every record in its last version; strings of 12, arrays of 3", others),
    ]


def _table(title: str, samples: Sequence[Sample]) -> Table:
    rows, data = [], []
    for sample in samples:
        values = [encode_record(record, sample.version) for record in sample.records]
        size = sum(map(len, values)) // len(values)
        read = rate(f"{sample.what}, decode", _times(decode_record, values))
        written = rate(f"{sample.what}, encode", _times(partial(_encode, sample.version), sample.records))
        rows.append((sample.what, str(size), *cells(read), *cells(written)))
        data += [asdict(read), asdict(written)]
    columns = ("record", "bytes", "decode", "per loop", "spread", "encode", "per loop", "spread")
    return Table(title=title, columns=columns, rows=rows, data=data)


def _encode(version: int, record: Message) -> bytes:
    return encode_record(record, version)


def _made_up(record: type[Message]) -> Sample:
    shape, chance = layout_of(record), Random(SEED)
    version = shape.versions[-1]
    drawn = [_filled(shape, version, chance) for _ in range(DIFFERENT)]
    return Sample(f"{record.__name__} v{version}", drawn * (COUNT // DIFFERENT), version)


def _times(function: Callable[[Any], Any], items: Sequence[Any]) -> Callable[[], int]:
    def work() -> int:
        for item in items:
            function(item)
        return len(items)

    return work


def _as_of(record: PartitionRecord, version: int) -> PartitionRecord:
    names = {field.name for field in layout_of(PartitionRecord).fields if field.in_version(version)}
    return PartitionRecord(**{name: getattr(record, name) for name in names})


def _filled(shape: Layout, version: int, chance: Random) -> Message:
    """A record with something in every field that is not tagged; tagged ones are rare in a log."""
    fields = [field for field in shape.fields if field.in_version(version) and field.tag is None]
    return struct_class(shape)(**{field.name: _value(field, version, chance) for field in fields})


def _value(field: Field, version: int, chance: Random) -> Any:
    if field.array:
        return tuple(_one(field, version, chance) for _ in range(3))
    return _one(field, version, chance)


def _one(field: Field, version: int, chance: Random) -> Any:
    match field.kind:
        case FieldType.STRUCT:
            assert field.struct is not None
            return _filled(field.struct, version, chance)
        case FieldType.BOOL:
            return chance.random() < 0.5
        case FieldType.FLOAT64:
            return chance.random()
        case FieldType.UUID:
            return chance.randbytes(16)
        case FieldType.BYTES | FieldType.RECORDS:
            return chance.randbytes(12)
        case FieldType.STRING:
            return f"{chance.randrange(10**12):012}"
        case _:
            return chance.randrange(100)
