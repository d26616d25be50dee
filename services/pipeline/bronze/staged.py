"""Decodes files into Parquet files of bronze, each written by the Python worker that decodes it.

No row passes through the JVM. The files are written below a directory that readers ignore, where each has the path
that it gets below its table; what a task knows about its rows goes to the driver, which decides by that what is new:
their extents, and what is known to be committed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from quorate.nouns import Epoch, Offset
from quorate.pipeline.columns import COLUMNS
from quorate.pipeline.commitment import COMMITTED
from quorate.pipeline.log_files import LOG_KIND
from services.pipeline.bronze.digest import xxhash64
from services.pipeline.bronze.extents import OffsetExtent, combined
from services.pipeline.row_files import CODEC, row_file
from services.pipeline.source.columns import Bundle, arrow_schema, check_columns
from services.pipeline.source.commit_column import COMMIT
from services.pipeline.source.kraft import KraftReader

__all__ = ["CONTENT", "DAMAGED", "SHARED", "SNAPSHOT", "Staged", "StagedFile", "stage"]

SHARED: Final = ("source", *(name for name in COLUMNS if name != "_corrupt"))
"""The columns of a record of a log or of a checkpoint, beside the cluster id."""
SNAPSHOT: Final = ("snapshot_offset", "snapshot_epoch", "fingerprint")
CONTENT: Final = ("timestamp", "is_control", "api_key", "version", "payload", "trace_id", "raw")
"""The columns that a record's digest is made of."""
DAMAGED: Final = "damaged"
"""The directory of rows that report damage; those of records have the names of their kinds."""

ROWS_MAX: Final = 1 << 17
"""About how many rows a task holds in memory; a row group has up to as many."""
OPEN_FILES_MAX: Final = 40
_DAY_US: Final = 86_400_000_000
_RESULT: Final = "result string"
DirectoryOf = Callable[[str, str], str]
"""How Spark calls the directory of a partition, by column and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A file below the staging directory, and the sources of its rows."""

    kind: str
    """The kind of the records, or DAMAGED: the directory that `path` is relative to."""
    path: str
    rows: int
    sources: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The files that tasks have written, and by kind the extents of the files whose rows these are.

    `committed` has the first and the last offset (exclusive) that are known to be committed, by cluster and epoch.
    `read` has the files of which all records were read.
    """

    files: list[StagedFile] = field(default_factory=list)
    extents: dict[str, list[OffsetExtent]] = field(default_factory=dict)
    committed: list[tuple[str, Epoch, Offset, Offset]] = field(default_factory=list)
    read: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for kind, extents in self.extents.items():
            written, read = (sum(each.rows for each in some) for some in (self.of(kind), extents))
            assert written == read, (kind, written, read)

    def of(self, kind: str) -> list[StagedFile]:
        """Returns the files of this kind."""
        return [each for each in self.files if each.kind == kind]


def stage(spark: SparkSession, options: Mapping[str, str], to: Path, directory_of: DirectoryOf) -> Staged:
    """Writes the rows that `options` of the source select below `to`, which driver and workers reach by this path.

    Raises the source's own errors. Files of attempts that did not count may be there, too; they are not in the result.
    """
    reader = KraftReader(options, check_columns(arrow_schema().names))
    bundles = [each for each in reader.partitions() if isinstance(each, Bundle)]
    clusters = {part.place.cluster_id for each in bundles for part in each.parts}
    directories = {cluster_id: directory_of("cluster_id", cluster_id) for cluster_id in clusters}

    def staged(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                found = _Task(to, directories).run(reader, bundles[number])
                yield pa.RecordBatch.from_pydict({"result": [json.dumps(asdict(found))]})

    if not bundles:
        return Staged()
    tasks = spark.range(0, len(bundles), 1, len(bundles))
    results = tasks.mapInArrow(staged, _RESULT).collect()
    assert len(results) == len(bundles), (len(results), len(bundles))
    found = _together(json.loads(row["result"]) for row in results)
    places = {part.place for each in bundles for part in each.parts}
    return replace(found, read=sorted(place.path for place in places if place.problem is None))


def _together(results: Iterable[Mapping[str, Any]]) -> Staged:
    """Combines what the tasks say; several of them may have read parts of one file."""
    files: list[StagedFile] = []
    pieces: dict[str, list[OffsetExtent]] = {}
    ranges: dict[tuple[str, Epoch], tuple[Offset, Offset]] = {}
    for each in results:
        files += [StagedFile(**one) for one in each["files"]]
        for kind, extents in each["extents"].items():
            pieces.setdefault(kind, []).extend(OffsetExtent(*one) for one in extents)
        for cluster_id, epoch, start, end in each["committed"]:
            low, high = ranges.get((cluster_id, epoch), (start, end))
            ranges[cluster_id, epoch] = min(low, start), max(high, end)
    return Staged(
        files=sorted(files, key=lambda one: one.path),
        extents={kind: combined(some) for kind, some in pieces.items()},
        committed=[(*key, *found) for key, found in sorted(ranges.items())],
    )


class _Task:
    """Writes what a bundle has, and notes what the driver wants to know."""

    def __init__(self, to: Path, directories: Mapping[str, str]) -> None:
        self._to = to
        self._directories = directories
        self._files: dict[tuple[str, str], _File] = {}
        self._done: list[StagedFile] = []
        self._held = 0
        self._extents: dict[tuple[str, str], OffsetExtent] = {}
        self._ranges: dict[tuple[str, Epoch], tuple[Offset, Offset]] = {}

    def run(self, reader: KraftReader, bundle: Bundle) -> Staged:
        """Reads the bundle to its end, and writes its rows to files."""
        try:
            for batch in reader.read(bundle):
                self._take(pa.Table.from_batches([batch]))
        finally:
            while self._files:
                self._close(next(iter(self._files)))
        assert not self._held, self._held
        ranges = [(*key, *found) for key, found in self._ranges.items()]
        extents: dict[str, list[OffsetExtent]] = {}
        for (kind, _), extent in self._extents.items():
            extents.setdefault(kind, []).append(extent)
        return Staged(files=self._done, extents=extents, committed=ranges)

    def _take(self, rows: pa.Table) -> None:
        """Takes rows of one part of a file, so all of one cluster, source and kind."""
        is_sound = rows["_corrupt"].is_null()
        sound = rows
        if rows["_corrupt"].null_count < len(rows):
            sound = rows.filter(is_sound)
            self._hold((DAMAGED, ""), rows.filter(pc.invert(is_sound)))
        if not len(sound):
            return
        sound = sound.combine_chunks()
        cluster_id, kind = sound["cluster_id"][0].as_py(), sound["kind"][0].as_py()
        fingerprint = None if kind == LOG_KIND else sound["fingerprint"][0].as_py()
        offsets = sound["offset"].to_numpy()
        extent = OffsetExtent(
            cluster_id,
            fingerprint,
            sound["source"][0].as_py(),
            int(offsets.min()),
            int(offsets.max()),
            len(offsets),
            int(np.bitwise_xor.reduce(offsets)),
        )
        same = [self._extents[kind, extent.source]] if (kind, extent.source) in self._extents else []
        self._extents[kind, extent.source] = combined([*same, extent])[0]
        if kind == LOG_KIND:
            self._note_committed(cluster_id, sound)
        shown = _record(sound) if kind == LOG_KIND else sound.select([*SNAPSHOT, *SHARED])
        for date, some in self._by_date(sound["timestamp"], shown):
            self._hold((kind, f"{self._directories[cluster_id]}/date={date}"), some)

    def _note_committed(self, cluster_id: str, rows: pa.Table) -> None:
        committed = rows.select(["epoch", "offset"]).filter(pc.equal(rows[COMMIT], COMMITTED))
        ends = committed.group_by("epoch").aggregate([("offset", "min"), ("offset", "max")]).to_pylist()
        for each in ends:
            key, first, end = (cluster_id, each["epoch"]), each["offset_min"], each["offset_max"] + 1
            low, high = self._ranges.get(key, (first, end))
            self._ranges[key] = min(low, first), max(high, end)

    def _by_date(self, timestamps: Any, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """Yields the rows of each day in UTC, in their order. A record of no calendar's day is damage, and not here."""
        days = np.floor_divide(timestamps.cast(pa.int64()).to_numpy(), _DAY_US)
        found = days[:1] if (days == days[0]).all() else np.unique(days)
        for day in found:
            yield str(np.datetime64(int(day), "D")), rows if len(found) == 1 else rows.filter(pa.array(days == day))

    def _hold(self, key: tuple[str, str], rows: pa.Table) -> None:
        """Holds the rows for their file, and writes what is held when there is enough of it."""
        file = self._files.pop(key, None) or _File(self._to, *key)
        self._files[key] = file  # the last ones are those that were used last
        file.hold(rows)
        self._held += len(rows)
        while self._held >= ROWS_MAX:
            self._held -= max(self._files.values(), key=lambda one: one.held).write()
        if len(self._files) > OPEN_FILES_MAX:
            self._close(next(iter(self._files)))

    def _close(self, key: tuple[str, str]) -> None:
        file = self._files.pop(key)
        self._held -= file.held
        self._done.append(file.close())


class _File:
    """A Parquet file that is being written. Its name is its own, so that a task may run twice."""

    def __init__(self, to: Path, kind: str, directory: str) -> None:
        self._kind = kind
        self._path = f"{directory}/part-{uuid.uuid4()}.{CODEC}.parquet".lstrip("/")
        self._place = to / kind / self._path
        self._rows: list[pa.Table] = []
        self._sources: set[str] = set()
        self._writer: pq.ParquetWriter | None = None
        self._count = 0
        self.held = 0

    def hold(self, rows: pa.Table) -> None:
        """Buffers rows of one source file until `write`."""
        self._rows.append(rows)
        self._sources.add(rows["source"][0].as_py())
        self.held += len(rows)

    def write(self) -> int:
        """Writes the rows that are held, as a row group; returns how many there were."""
        written, self.held = self.held, 0
        if written:
            if self._writer is None:
                self._place.parent.mkdir(parents=True, exist_ok=True)
                self._writer = row_file(self._place, self._rows[0].schema)
            rows = pa.concat_tables(self._rows)
            assert len(rows) == written, (len(rows), written)
            self._writer.write_table(rows)
            self._rows = []
            self._count += written
        return written

    def close(self) -> StagedFile:
        """Writes the rest, and ends the file."""
        self.write()
        assert self._writer is not None, "a file is made for rows"
        self._writer.close()
        return StagedFile(kind=self._kind, path=self._path, rows=self._count, sources=sorted(self._sources))


def _record(rows: pa.Table) -> pa.Table:
    """Returns the columns of a log's records, with their digest."""
    shared = rows.select(SHARED)
    return shared.append_column("digest", pa.array(xxhash64(_parts(rows))))


def _parts(rows: pa.Table) -> Iterator[Any]:
    """Yields what is hashed: each column of the content, and, because nulls are left out, whether it is null."""
    for name in CONTENT:
        column = rows[name].chunk(0)
        yield column
        yield column.is_null()
