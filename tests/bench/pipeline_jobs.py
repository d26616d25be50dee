"""Work of the pipeline in a Spark of its own: what each piece takes of time, of CPU and of memory.

A bench starts it as a process for every master, so that one bench's garbage is no other's memory, and reads a line of
JSON for every round. The CPU is that of the JVM and of its Python workers: on a machine that is busy it is the figure
that holds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from services.pipeline.tables import Lake

__all__ = ["JOBS", "Asked", "Job", "Round", "run"]

HEAP: Final = "2g"
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": HEAP,
    "spark.sql.shuffle.partitions": "8",
    # A thread that has ended takes its times with it.
    "spark.driver.extraJavaOptions": "-XX:-UseDynamicNumberOfCompilerThreads",
}
SAMPLED_EVERY_S: Final = 0.2
TICKS: Final = os.sysconf("SC_CLK_TCK")
COMPILERS: Final = ("C1 Compiler", "C2 Compiler")
"""How the JVM calls the threads that compile; the kernel keeps 15 letters of a name."""
PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One of JOBS, so many times over; the tables lie below `lake`. `rows` is how many records that makes."""

    name: str
    rows: int
    rounds: int = 1
    logs: str = ""
    lake: str = ""
    part_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one process does, job after job; a test asks for a session `for_few` records, which no figure is of."""

    master: str
    jobs: Sequence[Job]
    for_few: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round took: seconds, seconds of CPU, and the most bytes that there were in RAM since the process began.

    `compile_cpu` is what of `jvm_cpu` the JVM's compilers took: that is by the program and not by the rows.
    Pages of files, which the kernel takes back when it wants them, are no part of that. `worker_bytes` is the largest
    Python worker, `workers` how many there were at once.
    """

    name: str
    rows: int
    seconds: float
    jvm_cpu: float
    compile_cpu: float
    python_cpu: float
    jvm_bytes: int
    worker_bytes: int
    workers: int

    @property
    def cpu(self) -> float:
        return self.jvm_cpu + self.python_cpu

    @property
    def per_second(self) -> float:
        """Records a second on the wall."""
        return self.rows / self.seconds

    @property
    def per_core(self) -> float:
        """Records a second of CPU."""
        return self.rows / self.cpu

    @property
    def per_core_compiled(self) -> float:
        """The same where all has been compiled: what it comes to as the rows grow."""
        return self.rows / (self.cpu - self.compile_cpu)


def run(asked: Asked) -> list[Round]:
    """Do it in a new process, and wait. Raises CalledProcessError, after the process has said why on stderr."""
    text = json.dumps(asdict(asked))
    ran = subprocess.run(
        [sys.executable, "-m", "tests.bench.pipeline_jobs", text], check=True, stdout=subprocess.PIPE, text=True
    )
    return [Round(**json.loads(line)) for line in ran.stdout.splitlines()]


# -- in the process ------------------------------------------------------------------------------------


def main(text: str) -> None:
    """Do what `text` asks, telling of each round on stdout."""
    from services.pipeline.session import SMALL, start

    wanted = json.loads(text)
    spark = start(wanted["master"], {**SETTINGS, **(SMALL if wanted["for_few"] else {})})
    java = spark.sparkContext._jvm
    assert java is not None, "a session with a JVM of its own"
    with Watch(int(java.java.lang.ProcessHandle.current().pid())) as watch:
        for each in wanted["jobs"]:
            job = Job(**each)
            for _ in range(job.rounds):
                print(json.dumps(asdict(_round(spark, job, watch))), flush=True)
    spark.stop()


def _round(spark: SparkSession, job: Job, watch: Watch) -> Round:
    before, begun = watch.cpu(), time.perf_counter()
    JOBS[job.name](spark, job)
    seconds, after = time.perf_counter() - begun, watch.cpu()
    return Round(
        name=job.name,
        rows=job.rows,
        seconds=seconds,
        jvm_cpu=after.jvm - before.jvm,
        compile_cpu=after.compilers - before.compilers,
        python_cpu=after.python - before.python,
        jvm_bytes=watch.jvm_bytes,
        worker_bytes=watch.worker_bytes,
        workers=watch.workers,
    )


def _read(spark: SparkSession, job: Job) -> None:
    """Logs to Spark, which throws the rows away."""
    _logs(spark, job).write.format("noop").mode("overwrite").save()


def _parquet(spark: SparkSession, job: Job) -> None:
    """Logs to one directory of Parquet, nothing looked at."""
    _logs(spark, job).write.mode("overwrite").parquet(f"{job.lake}/plain")


def _export(spark: SparkSession, job: Job) -> None:
    """Logs to one directory of Parquet, which the Python workers write."""
    from services.pipeline.export import export

    shutil.rmtree(f"{job.lake}/export", ignore_errors=True)
    export(spark, _options(job), f"{job.lake}/export")


def _range(spark: SparkSession, job: Job) -> None:
    """As many rows of as many columns and bytes, made by the JVM: what no source can be faster than."""
    parts = spark.sparkContext.defaultParallelism
    spark.range(0, job.rows, 1, parts).selectExpr(*_LIKE_BRONZE).write.mode("overwrite").parquet(f"{job.lake}/range")


def _bronze(spark: SparkSession, job: Job) -> None:
    """Logs to bronze, from nothing."""
    from services.pipeline import bronze

    shutil.rmtree(f"{job.lake}/bronze", ignore_errors=True)
    bronze.ingest_files(spark, _options(job), _tables(spark, job))


def _bronze_rows(spark: SparkSession, job: Job) -> None:
    """The same through the JVM, as for a stream, an object store, or Delta."""
    from services.pipeline import bronze

    shutil.rmtree(f"{job.lake}/bronze", ignore_errors=True)
    bronze.ingest(_logs(spark, job), _tables(spark, job))


def _again(spark: SparkSession, job: Job) -> None:
    """The same logs to bronze once more: nothing is new."""
    from services.pipeline import bronze

    counts = bronze.ingest_files(spark, _options(job), _tables(spark, job))
    assert counts.records == 0, counts


def _silver(spark: SparkSession, job: Job) -> None:
    """Bronze to histories, from nothing."""
    shutil.rmtree(f"{job.lake}/silver", ignore_errors=True)
    _unchanged(spark, job)


def _unchanged(spark: SparkSession, job: Job) -> None:
    """Bronze to histories: after `silver`, nothing is new."""
    from services.pipeline import bronze
    from services.pipeline.silver import image

    tables = _tables(spark, job)
    records, snapshots = tables.read(bronze.RECORDS), tables.read(bronze.SNAPSHOTS)
    assert records is not None, job
    image.build(records, None if snapshots is None else bronze.whole_snapshots(snapshots), tables)


def _gold(spark: SparkSession, job: Job) -> None:
    """Histories to answers."""
    from services.pipeline import gold

    gold.build(_tables(spark, job))


def _verify(spark: SparkSession, job: Job) -> None:
    """Histories against every checkpoint."""
    from services.pipeline import verify

    differences = verify.verify_replay(_tables(spark, job)).differences
    assert differences.count() == 0, differences.take(3)


JOBS: Final[Mapping[str, Callable[[SparkSession, Job], None]]] = {
    "read": _read,
    "parquet": _parquet,
    "export": _export,
    "range": _range,
    "bronze": _bronze,
    "bronze_rows": _bronze_rows,
    "again": _again,
    "silver": _silver,
    "unchanged": _unchanged,
    "gold": _gold,
    "verify": _verify,
}


def _logs(spark: SparkSession, job: Job):  # type: ignore[no-untyped-def]  # a DataFrame, or a classic one
    return spark.read.format("kraft").options(**_options(job)).load()


def _tables(spark: SparkSession, job: Job) -> Lake:
    """The tables as each job of the pipeline opens them."""
    from services.pipeline.memory import is_small
    from services.pipeline.tables import ParquetTables, Remembered

    lake = ParquetTables(spark, job.lake)
    return Remembered(lake) if is_small(spark) else lake


def _options(job: Job) -> dict[str, str]:
    bytes_ = {} if job.part_bytes is None else {"maxPartitionBytes": str(job.part_bytes)}
    return {"path": job.logs, "mode": "FAILFAST", **bytes_}


_LIKE_BRONZE: Final = (
    "'cluster' cluster_id",
    "'/var/lib/quorum/__cluster_metadata-0/00000000000000000000.log' source",
    "'log' kind",
    "cast(null as bigint) snapshot_offset",
    "cast(null as int) snapshot_epoch",
    "cast(null as string) fingerprint",
    "id `offset`",
    "1 epoch",
    "timestamp_millis(1767225600000 + id * 250) timestamp",
    "id - id % 30 batch_base_offset",
    "false is_control",
    "5 api_key",
    "'PARTITION_CHANGE_RECORD' type",
    "2 version",
    """concat('{"partitionId":', id % 97, ',"topicId":"mtt_lx5A5Po5coXCm6TpSw","isr":[', id % 29, ',28]}') payload""",
    "if(id % 30 = 0, md5(cast(id as string)), null) trace_id",
    "cast(null as binary) raw",
    "cast(null as string) _corrupt",
)


class Cpu(NamedTuple):
    """Seconds of CPU: of the JVM, of its compilers among that, and of all Python below it, of what has ended too."""

    jvm: float
    compilers: float
    python: float


class Watch:
    """The JVM and its children, looked at again and again."""

    def __init__(self, jvm: int) -> None:
        self.jvm_bytes = self.worker_bytes = self.workers = 0
        self._jvm = jvm
        self._seconds: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def cpu(self) -> Cpu:
        """Seconds so far."""
        self._note()
        jvm = self._seconds[self._jvm]
        python = sum(self._seconds.values()) - jvm
        threads = _stats(Path(f"/proc/{self._jvm}/task"))
        compilers = sum(sum(map(int, fields[11:13])) for _, name, fields in threads if name.startswith(COMPILERS))
        return Cpu(jvm, compilers / TICKS, python)

    def _look_on(self) -> None:
        while not self._over.wait(SAMPLED_EVERY_S):
            found = self._note()
            self.jvm_bytes = max(self.jvm_bytes, found.pop(self._jvm, 0))
            self.worker_bytes = max(self.worker_bytes, *found.values(), 0)
            self.workers = max(self.workers, len(found) - 1)  # one only makes the others

    def _note(self) -> dict[int, int]:
        """The bytes of each process; what CPU each has had is kept, as nobody adds up what idle workers took."""
        found = {}
        for pid, name, fields in self._tree():
            if pid != self._jvm and not name.startswith("python"):
                continue  # a JVM that starts a program is two for a moment, with as many bytes each
            self._seconds[pid] = sum(map(int, fields[11:13])) / TICKS
            with suppress(OSError):
                resident, shared = (Path("/proc") / str(pid) / "statm").read_text().split()[1:3]
                found[pid] = (int(resident) - int(shared)) * PAGE
        return found

    def _tree(self) -> Iterator[tuple[int, str, list[str]]]:
        """Each process from the JVM down, as `_stats` has it."""
        every = {each[0]: each for each in _stats(Path("/proc"))}
        children: dict[int, list[int]] = {}
        for pid, _, fields in every.values():
            children.setdefault(int(fields[1]), []).append(pid)
        waiting = [self._jvm]
        while waiting:
            pid = waiting.pop()
            if pid in every:
                yield every[pid]
            waiting += children.get(pid, ())


def _stats(folder: Path) -> Iterator[tuple[int, str, list[str]]]:
    """Number and name of each process or thread, with the fields of its `stat` from the third on."""
    for path in folder.iterdir():
        if path.name.isdecimal():
            try:
                head, _, rest = (path / "stat").read_text().rpartition(")")
            except OSError:
                continue  # it has ended
            yield int(path.name), head.partition("(")[2], rest.split()


if __name__ == "__main__":
    main(sys.argv[1])
