"""The streaming job in a process of its own, to be killed: `python -m tests.pipeline.stream_job LOGS HOME`.

It says `ready` when Spark has started, and begins when it reads a line: so it can warm up while another one works.
"""

from __future__ import annotations

import sys

from services.pipeline.bronze.stream import ingest_stream
from services.pipeline.session import start
from tests.pipeline.conftest import SETTINGS

OPTIONS = {"maxOffsetsPerTrigger": "150"}


def main(logs: str, home: str) -> None:
    """Until it is killed."""
    spark = start("local[2]", {**SETTINGS, "spark.sql.warehouse.dir": f"{home}/warehouse"}, for_few=True)
    spark.range(1).collect()
    print("ready", flush=True)
    sys.stdin.readline()
    tables, checkpoint = f"{home}/tables", f"{home}/checkpoint"
    ingest_stream(spark, tables, logs, checkpoint, options=OPTIONS, available_now=False, every_s=0).awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
