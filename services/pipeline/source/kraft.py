"""The Spark data source `kraft`: reads metadata logs and checkpoints, one record a row.

    register(spark)
    spark.read.format("kraft").load("/var/lib/kafka/metadata")
    spark.readStream.format("kraft").load("/var/lib/kafka/metadata")

It only reads. Each task decodes parts of files (`quorate.pipeline.rows`) and returns Arrow batches, so that rows
do not pass one by one between Python and the JVM. In the wheel pyspark-kraft, KraftSource is the package's
`DefaultSource`, which Spark finds by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.types import StructType

from quorate.pipeline.log_files import (
    CHECKPOINT_KIND,
    LOG_KIND,
    FilePart,
    LogFile,
    bundled,
    find,
    is_being_written,
    parts,
)
from quorate.pipeline.replicas import commitments, contradicted
from quorate.pipeline.twins import twins
from quorate.runtime.event_loop.clock import Clock, SystemClock
from services.pipeline.source.columns import NAME, Bundle, arrow_batch, check_columns, schema_of, spared
from services.pipeline.source.commit_column import COMMIT
from services.pipeline.source.conditions import narrowed
from services.pipeline.source.loss import below_starts, parts_of, read_or_lost
from services.pipeline.source.options import parse

__all__ = ["KraftSource", "register"]

READ_LIMITS: Final = "pyspark.sql.streaming.datasource"
"""A module that a stream reader with limits needs, and that Spark 4.1 does not have."""
CLOCK: Final = SystemClock()
PUSHDOWN_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
"""The module of the Python worker that asks a reader which conditions it knows."""


def register(spark: SparkSession) -> None:
    """Registers the format `kraft` with this session, and turns on filter pushdown for it."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(KraftSource)


class KraftSource(DataSource):
    """The data source `kraft`; the README lists its options."""

    @classmethod
    def name(cls) -> str:
        """Returns "kraft", the name for `format(…)`."""
        return NAME

    def schema(self) -> str:
        """Returns the schema: all columns, or those of the option `columns`. Raises ValueError for an unknown one.

        Spark does not tell a Python source which columns a query uses: all that are in the schema are decoded.
        """
        return schema_of(parse(dict(self.options)).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the batch reader of files or of a quorum. Raises ValueError, naming option, value and rule."""
        options = dict(self.options)
        reader: DataSourceReader
        if parse(options).paths:
            reader = KraftReader(options, schema.fieldNames())
        else:
            # Imported here because the clients would double the start time of every worker, and most of them read
            # files.
            from services.pipeline.source.live import LiveReader

            reader = LiveReader(options, schema.fieldNames())
        return reader if PUSHDOWN_WORKER in sys.modules else WithoutPushdown(reader)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # Spark's name
        """Returns the stream reader of files or of a quorum.

        Raises ValueError, naming option, value and rule; NotImplementedError on Spark 4.1.
        """
        options = dict(self.options)
        from_files = bool(parse(options).paths)
        try:
            if from_files:
                from services.pipeline.source.stream import KraftStreamReader

                return KraftStreamReader(options, schema.fieldNames())
            from services.pipeline.source.live_stream import LiveStreamReader

            return LiveStreamReader(options, schema.fieldNames())
        except ModuleNotFoundError as missing:
            if missing.name != READ_LIMITS:
                raise
            raise NotImplementedError(f"streams of the source {NAME} need Spark 4.2: {missing}") from None


class WithoutPushdown(DataSourceReader):
    """A reader that Spark takes in a session without filter pushdown, where it refuses one that has pushFilters.

    A worker does not get the setting, but Spark 4.1 to 4.3 pushes filters in a worker module of its own.
    """

    def __init__(self, reader: DataSourceReader) -> None:
        self._reader = reader

    def partitions(self) -> Sequence[InputPartition]:
        """Plans the tasks."""
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the records of one task, as Arrow batches with the columns asked for."""
        return self._reader.read(partition)


class KraftReader(DataSourceReader):
    """The batch reader of files: lists files, cuts them into tasks, and decodes their records."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str], clock: Clock = CLOCK) -> None:
        self._clock = clock
        self.options = parse(options)
        self.options.bounds.check_for_batch()
        self._columns = check_columns(columns)
        self.wanted = spared(self.options.wanted, self._columns)

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # Spark's name
        """Notes the conditions that spare reading and decoding. Returns all of them: Spark checks each row again."""
        for each in filters:
            self.wanted = narrowed(self.wanted, each)
            yield each

    def partitions(self) -> Sequence[InputPartition]:
        """Plans the tasks: a large segment is split into several, a hundred small files go into one.

        Of two clusters under one id nothing is read but a row that says so: nobody can tell their records apart. A
        `.part` file is left out while it may still be written: an unfinished checkpoint is damage only once it is old.

        Raises FileNotFoundError; ValueError if startingOffsets or endingOffsets name a cluster that is not there;
        DataLoss if startingOffsets asks for offsets that were removed, unless failOnDataLoss is false.
        """
        by_ms = self._clock.wall_ms() - self.options.settle_ms
        found = find(self.options.paths, cluster_id=self.options.cluster_id, access=self.options.access)
        self.options.bounds.check_clusters({place.cluster_id for place in found})
        # All files are compared, also those that a filter excludes: it must not hide that there are two clusters.
        committed = commitments(found) if COMMIT in self._columns else {}
        refused = [*twins(found), *contradicted(found, committed)]
        mixed = {place.cluster_id for place in refused}
        sound = [place for place in found if place.cluster_id not in mixed or place.problem is not None]
        places = [place for place in sound if self._may_hold(place) and not is_being_written(place, by_ms)]
        part_bytes = self.options.part_bytes
        every = [part for place in (*places, *refused) for part in self._parts(place)]
        if LOG_KIND in self.options.include:
            readable = [place for place in sound if place.problem is None]
            every += parts_of(list(below_starts(self.options.bounds, readable)), fails=self.options.fails_on_loss)
        return [Bundle(bundle, committed) for bundle in bundled(every, part_bytes=part_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a bundle of file parts as Arrow batches."""
        if not isinstance(partition, Bundle):
            return  # Spark passes another partition if the plan is empty
        for part in partition.parts:
            wanted = self.options.bounds.limited(self.wanted, part.place.cluster_id)
            for columns in read_or_lost(part, wanted, fails=self.options.fails_on_loss):
                yield arrow_batch(part, columns, self._columns, partition.committed[part.place.cluster_id])

    def _parts(self, place: LogFile) -> Iterator[FilePart]:
        """Yields the parts of a file, of a segment those that may hold offsets that are wanted."""
        wanted = self.options.bounds.limited(self.wanted, place.cluster_id)
        every = list(parts(place, part_bytes=self.options.part_bytes))
        for part, following in zip_longest(every, every[1:]):
            ends_before = following is not None and (following.offset or 0) <= wanted.start_offset
            begins_behind = (part.offset or 0) >= wanted.end_offset
            if place.kind == CHECKPOINT_KIND or place.problem is not None or not (ends_before or begins_behind):
                yield part

    def _may_hold(self, place: LogFile) -> bool:
        if not self.wanted.is_of(place.cluster_id, place.kind):
            return False
        if place.kind == CHECKPOINT_KIND:
            return self.options.may_hold(place)  # a query's filters select rows of a checkpoint, not checkpoints
        return self.options._replace(wanted=self.wanted).may_hold(place)
