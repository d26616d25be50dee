"""The Spark data source `kraft`: the records of metadata logs and checkpoints, one a row.

    register(spark)
    spark.read.format("kraft").load("/var/lib/kafka/metadata")

It only reads files. Parts of files go to tasks, each of which answers with Arrow batches; no row passes through Python
one by one but in the decoding loop (`quorate.pipeline.rows`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from quorate.pipeline.json_text import type_name
from quorate.pipeline.places import CHECKPOINT_KIND, LOG_KIND, PART_BYTES, Part, Place, bundled, find, parts
from quorate.pipeline.rows import CONTROL_TYPES, UNKNOWN, Columns, Wanted, read
from quorate.records import RECORDS

__all__ = ["NAME", "SCHEMA", "KraftSource", "register"]

NAME: Final = "kraft"
PERMISSIVE: Final = "PERMISSIVE"
FAILFAST: Final = "FAILFAST"
OPTIONS: Final = (
    "path",
    "paths",
    "clusterId",
    "startOffset",
    "endOffset",
    "recordTypes",
    "includeControl",
    "include",
    "mode",
    "maxPartitionBytes",
)
FOREVER: Final = (1 << 63) - 1

SCHEMA: Final = """
    cluster_id string, source string, kind string, snapshot_offset bigint, snapshot_epoch int, fingerprint string,
    `offset` bigint, epoch int, timestamp timestamp, batch_base_offset bigint, is_control boolean, api_key int,
    type string, version int, payload string, trace_id string, raw binary, _corrupt string
"""
_TYPES: Final = {
    "cluster_id": pa.string(),
    "source": pa.string(),
    "kind": pa.string(),
    "snapshot_offset": pa.int64(),
    "snapshot_epoch": pa.int32(),
    "fingerprint": pa.string(),
    "offset": pa.int64(),
    "epoch": pa.int32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "batch_base_offset": pa.int64(),
    "is_control": pa.bool_(),
    "api_key": pa.int32(),
    "type": pa.string(),
    "version": pa.int32(),
    "payload": pa.string(),
    "trace_id": pa.string(),
    "raw": pa.binary(),
    "_corrupt": pa.string(),
}


def register(spark: SparkSession) -> None:
    """Make `kraft` a format of this session."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(KraftSource)


class KraftSource(DataSource):
    """The format `kraft`; its options are in the README."""

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return NAME

    def schema(self) -> str:
        """All columns; `schema(...)` on the reader may ask for fewer."""
        return SCHEMA

    def reader(self, schema: StructType) -> KraftReader:
        """Raises ValueError, naming option, value and rule."""
        return KraftReader(dict(self.options), schema.fieldNames())


class Bundle(InputPartition):
    """What one task reads."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        super().__init__(None)
        self.parts = parts


class KraftReader(DataSourceReader):
    """One batch read: which parts there are, and what is in them."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        self.wanted = _wanted(options)
        self._snapshots = self.wanted.start_offset, self.wanted.end_offset
        self._include = _include(options)
        self._paths = _paths(options)
        self._cluster_id = _option(options, "clusterId")
        self._part_bytes = _number(options, "maxPartitionBytes", PART_BYTES, least=1)
        strange = sorted(set(columns) - set(_TYPES))
        if strange:
            raise ValueError(f"the source {NAME} has no column {', '.join(strange)}: it has {', '.join(_TYPES)}")
        self._columns = tuple(columns)

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # Spark's name
        """Take what spares reading: offset, timestamp, type. All are given back too: Spark looks at each row again."""
        for each in filters:
            self.wanted = _narrowed(self.wanted, each)
            yield each

    def partitions(self) -> Sequence[InputPartition]:
        """Bundles of parts: a large segment is several, a hundred small files are one."""
        places = [place for place in find(self._paths, cluster_id=self._cluster_id) if self._may_hold(place)]
        every = (part for place in places for part in parts(place, part_bytes=self._part_bytes))
        return [Bundle(bundle) for bundle in bundled(every, part_bytes=self._part_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a bundle."""
        assert isinstance(partition, Bundle), partition
        for part in partition.parts:
            for columns in read(part, self.wanted):
                yield _batch(part, columns, self._columns)

    def _may_hold(self, place: Place) -> bool:
        if place.kind not in self._include:
            return False
        if place.kind == CHECKPOINT_KIND:
            low, high = self._snapshots
            return low <= place.base_offset <= high
        low, high = self.wanted.start_offset, self.wanted.end_offset
        return place.base_offset < high and (place.following is None or place.following > low)


def _batch(part: Part, columns: Columns, wanted: Sequence[str]) -> pa.RecordBatch:
    place, count = part.place, len(columns)
    is_checkpoint = place.kind == CHECKPOINT_KIND
    fixed = {
        "cluster_id": place.cluster_id,
        "source": place.path,
        "kind": place.kind,
        "snapshot_offset": place.base_offset if is_checkpoint else None,
        "snapshot_epoch": place.epoch if is_checkpoint else None,
        "fingerprint": part.fingerprint,
    }
    lists = columns.by_name()
    arrays = []
    for name in wanted:
        if name in fixed:
            arrays.append(pa.repeat(pa.scalar(fixed[name], _TYPES[name]), count))
        elif name == "timestamp":
            arrays.append(pa.array(lists[name], pa.timestamp("ms", tz="UTC")).cast(_TYPES[name]))
        else:
            arrays.append(pa.array(lists[name], _TYPES[name]))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([(name, _TYPES[name]) for name in wanted]))


def _narrowed(wanted: Wanted, one: Filter) -> Wanted:
    """`wanted` with a condition that it can make use of; what it cannot changes nothing."""
    match one:
        case EqualTo(attribute=("offset",), value=int(value)):
            return _offsets(wanted, value, value + 1)
        case GreaterThan(attribute=("offset",), value=int(value)):
            return _offsets(wanted, value + 1, FOREVER)
        case GreaterThanOrEqual(attribute=("offset",), value=int(value)):
            return _offsets(wanted, value, FOREVER)
        case LessThan(attribute=("offset",), value=int(value)):
            return _offsets(wanted, 0, value)
        case LessThanOrEqual(attribute=("offset",), value=int(value)):
            return _offsets(wanted, 0, value + 1)
        case EqualTo(attribute=("type",), value=str(value)):
            return _of_types(wanted, (value,))
        case In(attribute=("type",), value=values):
            return _of_types(wanted, values)
        case (
            GreaterThan(attribute=("timestamp",), value=datetime() as value)
            | GreaterThanOrEqual(attribute=("timestamp",), value=datetime() as value)
        ):
            return wanted._replace(start_ms=max(wanted.start_ms, _ms(value)))
        case (
            LessThan(attribute=("timestamp",), value=datetime() as value)
            | LessThanOrEqual(attribute=("timestamp",), value=datetime() as value)
        ):
            return wanted._replace(end_ms=min(wanted.end_ms, _ms(value) + 1))
    return wanted


def _offsets(wanted: Wanted, start: int, end: int) -> Wanted:
    return wanted._replace(start_offset=max(wanted.start_offset, start), end_offset=min(wanted.end_offset, end))


def _of_types(wanted: Wanted, types: Sequence[str]) -> Wanted:
    return wanted._replace(types=frozenset(types) if wanted.types is None else wanted.types & frozenset(types))


def _ms(moment: datetime) -> int:
    """ms since 1970, rounded down. Spark gives times without a zone, in UTC, or with one."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000 // 1)


def _wanted(options: Mapping[str, str]) -> Wanted:
    strange = sorted(name for name in options if name.lower() not in {each.lower() for each in OPTIONS})
    if strange:
        raise ValueError(f"the source {NAME} has no option {', '.join(strange)}: it has {', '.join(OPTIONS)}")
    mode = (_option(options, "mode") or PERMISSIVE).upper()
    if mode not in (PERMISSIVE, FAILFAST):
        raise ValueError(f"mode is {mode!r}; {PERMISSIVE} and {FAILFAST} exist")
    start = _number(options, "startOffset", 0)
    end = _number(options, "endOffset", FOREVER)
    if end < start:
        raise ValueError(f"endOffset {end} is below startOffset {start}; the end is exclusive")
    return Wanted(
        start_offset=start,
        end_offset=end,
        types=_record_types(options),
        control=_flag(options, "includeControl", default=True),
        failfast=mode == FAILFAST,
    )


def _record_types(options: Mapping[str, str]) -> frozenset[str] | None:
    given = _option(options, "recordTypes")
    if given is None:
        return None
    named = frozenset(name.strip().upper() for name in given.split(",") if name.strip())
    known = {*map(type_name, RECORDS.values()), *CONTROL_TYPES.values(), UNKNOWN}
    if named - known or not named:
        strange = ", ".join(sorted(named - known)) or repr(given)
        raise ValueError(f"recordTypes has {strange}; known are {', '.join(sorted(known))}")
    return named


def _include(options: Mapping[str, str]) -> frozenset[str]:
    given = _option(options, "include")
    kinds = frozenset((given or f"{LOG_KIND},{CHECKPOINT_KIND}").replace(" ", "").split(","))
    if kinds - {LOG_KIND, CHECKPOINT_KIND}:
        raise ValueError(f"include is {given!r}; it lists {LOG_KIND}, {CHECKPOINT_KIND} or both")
    return kinds


def _paths(options: Mapping[str, str]) -> list[str]:
    path, paths = _option(options, "path"), _option(options, "paths")
    found = json.loads(paths) if paths else [path] if path else []
    if not found:
        raise ValueError(f"the source {NAME} needs a path: a directory, a file or a glob")
    return [str(each).removeprefix("file://") for each in found]


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    given = _option(options, name)
    if given is None:
        return default
    if given.lower() not in ("true", "false"):
        raise ValueError(f"{name} is {given!r}; true and false exist")
    return given.lower() == "true"


def _number(options: Mapping[str, str], name: str, default: int, *, least: int = 0) -> int:
    given = _option(options, name)
    if given is None:
        return default
    if not given.isascii() or not given.isdigit() or int(given) < least:
        raise ValueError(f"{name} is {given!r}; it is a whole number of {least} or more")
    return int(given)


def _option(options: Mapping[str, Any], name: str) -> str | None:
    """An option by its name in any case, as Spark treats them."""
    lower = {key.lower(): value for key, value in options.items()}
    value = lower.get(name.lower())
    return None if value is None else str(value)
