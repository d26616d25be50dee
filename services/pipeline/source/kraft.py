"""The Spark data source `kraft`: the records of metadata logs and checkpoints, one a row.

    register(spark)
    spark.read.format("kraft").load("/var/lib/kafka/metadata")
    spark.readStream.format("kraft").load("/var/lib/kafka/metadata")

It only reads. Parts of files go to tasks, each of which answers with Arrow batches; no row passes through Python
one by one but in the decoding loop (`quorate.pipeline.rows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.types import StructType

from quorate.pipeline.places import CHECKPOINT_KIND, Place, bundled, find, is_being_written, parts
from quorate.pipeline.rows import read
from quorate.runtime.clock import Clock, SystemClock
from services.pipeline.source.columns import NAME, SCHEMA, Bundle, arrow_batch, check_columns
from services.pipeline.source.conditions import narrowed
from services.pipeline.source.options import parse
from services.pipeline.source.stream import KraftStreamReader

__all__ = ["KraftSource", "register"]

CLOCK: Final = SystemClock()


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

    def reader(self, schema: StructType) -> DataSourceReader:
        """Raises ValueError, naming option, value and rule."""
        options = dict(self.options)
        if not parse(options).endpoints:
            return KraftReader(options, schema.fieldNames())
        # Here, as gRPC would make every worker take twice as long to start, and most of them read files.
        from services.pipeline.source.live import LiveReader

        return LiveReader(options, schema.fieldNames())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # Spark's name
        """The same, as it grows. Raises ValueError."""
        options = dict(self.options)
        if not parse(options).endpoints:
            return KraftStreamReader(options, schema.fieldNames())
        from services.pipeline.source.live import LiveStreamReader

        return LiveStreamReader(options, schema.fieldNames())


class KraftReader(DataSourceReader):
    """One batch read: which parts there are, and what is in them."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str], clock: Clock = CLOCK) -> None:
        self._clock = clock
        self.options = parse(options)
        self.wanted = self.options.wanted
        self._columns = check_columns(columns)

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # Spark's name
        """Take what spares reading: offset, timestamp, type. All are given back too: Spark looks at each row again."""
        for each in filters:
            self.wanted = narrowed(self.wanted, each)
            yield each

    def partitions(self) -> Sequence[InputPartition]:
        """Bundles of parts: a large segment is several, a hundred small files are one.

        What a node is writing just now is left out: half a checkpoint is damage only when it has stood still.
        """
        by_ms = self._clock.wall_ms() - self.options.settle_ms
        found = find(self.options.paths, cluster_id=self.options.cluster_id)
        places = [place for place in found if self._may_hold(place) and not is_being_written(place, by_ms)]
        part_bytes = self.options.part_bytes
        every = (part for place in places for part in parts(place, part_bytes=part_bytes))
        return [Bundle(bundle) for bundle in bundled(every, part_bytes=part_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a bundle."""
        if not isinstance(partition, Bundle):
            return  # what Spark makes of no parts at all
        for part in partition.parts:
            for columns in read(part, self.wanted):
                yield arrow_batch(part, columns, self._columns)

    def _may_hold(self, place: Place) -> bool:
        if place.kind == CHECKPOINT_KIND:
            return self.options.may_hold(place)  # a filter says which rows of it, and not which checkpoints
        return self.options._replace(wanted=self.wanted).may_hold(place)
