"""The command `quorate pipeline JOB` (`python -m services.pipeline`): parses arguments, starts Spark, runs a job."""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from quorate.pipeline.files import is_url
from quorate.pipeline.log_files import find
from services.pipeline.exits import FAILED
from services.pipeline.node_options import node_options
from services.pipeline.size import are_few
from services.pipeline.steps import Steps, say

__all__ = ["main", "parser"]

UNDER_SUBMIT: Final = "submit"
MASTER: Final = re.compile(r"local(\[.+\])?|(spark|k8s|sc)://.+|yarn|" + UNDER_SUBMIT)
MASTERS: Final = "local[*], spark://…, k8s://…, yarn, sc://… (Spark Connect); 'submit' under spark-submit"
MODES: Final = ("PERMISSIVE", "FAILFAST")
_INT32_MAX: Final = 2**31 - 1
_HELP: Final = {
    "ingest": "files of metadata logs, checkpoints and spans to bronze",
    "stream": "the same as it comes, from files or a live quorum, until interrupted",
    "silver": "bronze to histories: what was so from when to when",
    "gold": "histories to answers: audit, availability, churn, commit latency",
    "verify": "compare the replayed log with every checkpoint",
    "report": "answers to one HTML page with plots",
    "what-if": "who would lead, and what would be offline, without these brokers or this rack",
    "compact": "many small files of bronze's closed days to one a day",
    "export": "every row of metadata logs and checkpoints as plain Parquet in a new directory, without tables",
    "run": "ingest or stream, silver, gold, verify, report, in one session",
}
_TAKES: Final = {
    "ingest": ("source", "spans", "cluster_id", "mode"),
    "stream": ("source", "cluster_id", "mode", "live", "stream"),
    "gold": ("min_isr",),
    "report": ("report",),
    "what-if": ("cluster", "loss", "min_isr"),
    "compact": ("before",),
    "export": ("source", "cluster_id", "mode"),
    "run": ("source", "spans", "cluster_id", "mode", "live", "min_isr", "report"),
}


def main(arguments: Sequence[str]) -> int:
    """Runs one job in a Spark session of its own; returns its exit code.

    That is 0; 1 if it found damage, a gap or a difference; 2 if it could not run, and an error is one line on stderr.
    Raises SystemExit for --help, and for arguments that argparse refuses.
    """
    asked = parser().parse_args(arguments)
    try:
        _check(asked)
        # Imported here so that help and wrong arguments are answered at once, and without Spark.
        from services.pipeline.jobs import run
        from services.pipeline.problems import words_of
        from services.pipeline.session import NoJava, start
    except ModuleNotFoundError as problem:
        say(f"{asked.name}: {problem}; Spark is not installed, or not all of it: `make spark-setup`")
        return FAILED
    except (OSError, ValueError) as problem:
        say(f"{asked.name}: {problem}")
        return FAILED
    steps = Steps()
    try:
        master = None if asked.master == UNDER_SUBMIT else asked.master
        spark = start(master, dict(asked.conf), for_few=_are_few(asked))
    except NoJava as problem:
        say(f"{asked.name}: {problem}")
        return FAILED
    except Exception as problem:  # Spark could not start; an exit code of 1 would mean that the job found damage
        say(f"{asked.name}: no session of Spark: {words_of(problem)}")
        return FAILED
    steps.done("a session of Spark")
    try:
        return run(spark, asked)
    finally:
        with suppress(Exception), warnings.catch_warnings():  # of a JVM that is gone; the exit code is the job's
            warnings.simplefilter("ignore")
            spark.stop()


def parser() -> argparse.ArgumentParser:
    """Builds the argument parser of all jobs."""
    whole = argparse.ArgumentParser(
        prog="quorate pipeline",
        description="Metadata logs of Kafka clusters as tables, on Spark.",
        epilog="Exit codes: 0 done; 1 it ran, and found damage, a gap or a difference; 2 it could not run.",
    )
    jobs = whole.add_subparsers(dest="name", required=True, metavar="JOB")
    for name, what in _HELP.items():
        one = jobs.add_parser(name, help=what, description=what)
        one.add_argument("--to", required=True, metavar="TABLES", help="the directory of the tables")
        one.add_argument("--master", default="local[*]", help=f"where Spark runs: {MASTERS}")
        conf = "a setting of the Spark session, as of spark-submit; spark.log.level=ERROR shows the stacks of errors"
        one.add_argument("--conf", action="append", default=[], type=_setting, metavar="NAME=VALUE", help=conf)
        for option in _TAKES.get(name, ()):
            _OPTIONS[option](one, name)
    return whole


def _add_source(one: argparse.ArgumentParser, job: str) -> None:
    what = "logs and checkpoints: a directory, a file or a glob"
    one.add_argument("--from", dest="source", required=job == "export", metavar="LOGS", help=what)


def _add_spans(one: argparse.ArgumentParser, _: str) -> None:
    what = "traces: an observer's database (a file, or postgresql://…), OTLP files, or a directory of them"
    one.add_argument("--spans", metavar="SPANS", help=what)


def _add_cluster_id(one: argparse.ArgumentParser, _: str) -> None:
    one.add_argument(
        "--cluster-id",
        help="for files that have no meta.properties beside or above them; else their folder's name is taken",
    )


def _add_mode(one: argparse.ArgumentParser, _: str) -> None:
    one.add_argument("--mode", default=MODES[0], choices=MODES, help="what damage does: a row in quarantine, or an end")


def _add_report(one: argparse.ArgumentParser, _: str) -> None:
    one.add_argument("--report", required=True, metavar="FILE", help="where the page is written")


def _add_live(one: argparse.ArgumentParser, _: str) -> None:
    one.add_argument("--endpoints", metavar="HOST:PORT,…", help="instead of --from: nodes of a running quorum (gRPC)")
    one.add_argument(
        "--bootstrap-controller",
        metavar="HOST:PORT,…",
        help="instead of --from: controllers of a running Kafka cluster",
    )
    one.add_argument(
        "--command-config", metavar="FILE", help="properties of a Kafka client, for TLS (and SASL to a Kafka)"
    )
    one.add_argument("--checkpoint", metavar="DIR", help="where it keeps how far it is (_stream in TABLES)")


def _add_stream(one: argparse.ArgumentParser, _: str) -> None:
    one.add_argument("--once", action="store_true", help="end when all is read that is there now")
    one.add_argument("--every", type=int, default=10, metavar="SECONDS", help="how often it looks (10)")


def _add_cluster(one: argparse.ArgumentParser, _: str) -> None:
    one.add_argument("--cluster-id", metavar="ID", help="of which cluster; needed where there are several")


def _add_loss(one: argparse.ArgumentParser, _: str) -> None:
    one.add_argument("--broker", dest="brokers", type=int, action="append", default=[], metavar="ID", help="is lost")
    one.add_argument("--rack", dest="racks", action="append", default=[], metavar="RACK", help="is lost, whole")
    one.add_argument("--at-offset", type=int, metavar="OFFSET", help="with all records below this offset (all)")
    one.add_argument("--prefer", action="store_true", help="elect preferred leaders afterwards")


def _add_before(one: argparse.ArgumentParser, _: str) -> None:
    what = "which days are closed: those before this one (today in UTC)"
    one.add_argument("--before", type=_day, default=datetime.now(UTC).date(), metavar="YYYY-MM-DD", help=what)


def _add_min_isr(one: argparse.ArgumentParser, _: str) -> None:
    what = "min.insync.replicas where no record says it, as the brokers' own files are in no log (1)"
    one.add_argument("--min-isr", type=_count, default=1, metavar="N", help=what)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if equals and name.startswith("spark."):
        return name, value
    raise argparse.ArgumentTypeError(f"'{text}' is no setting of Spark as spark.driver.memory=8g")


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text) <= _INT32_MAX:
        return int(text)
    raise argparse.ArgumentTypeError(f"'{text}' is no whole number from 1 to {_INT32_MAX}")


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no day as 2026-11-21") from None


_OPTIONS: Final = {
    "before": _add_before,
    "live": _add_live,
    "stream": _add_stream,
    "cluster": _add_cluster,
    "loss": _add_loss,
    "source": _add_source,
    "spans": _add_spans,
    "cluster_id": _add_cluster_id,
    "mode": _add_mode,
    "min_isr": _add_min_isr,
    "report": _add_report,
}


def _check(asked: argparse.Namespace) -> None:
    """Checks the arguments before Spark is started. Raises OSError and ValueError."""
    if asked.name == "ingest" and asked.source is None and asked.spans is None:
        raise OSError("there is nothing to read: give --from, --spans, or both")
    if asked.name in ("stream", "run"):
        if [asked.source, asked.endpoints, asked.bootstrap_controller].count(None) != 2:
            raise OSError("what is read is one of --from, --endpoints and --bootstrap-controller: give one of them")
        node_options(asked)
    if asked.name == "export" and is_url(asked.to):
        raise OSError(f"--to {asked.to}: an export needs a file system that renames directories, not an object store")
    if not MASTER.fullmatch(asked.master):
        raise OSError(f"--master {asked.master}: it is one of {MASTERS}")
    if "://" not in asked.to and Path(asked.to).exists() and not Path(asked.to).is_dir():
        raise OSError(f"--to {asked.to}: there is a file; tables are a directory")
    if (report := getattr(asked, "report", None)) is not None and not Path(report).absolute().parent.is_dir():
        raise OSError(f"{report}: there is no directory {Path(report).absolute().parent} to write it into")
    if asked.master.startswith("local") and getattr(asked, "source", None) is not None:
        find([asked.source])


def _are_few(asked: argparse.Namespace) -> bool:
    """Returns whether the job's input is small enough for a session for few records; never of a stream."""
    is_stream = asked.name == "stream" or (asked.name == "run" and asked.source is None)
    return not is_stream and are_few(asked.to, getattr(asked, "source", None), getattr(asked, "spans", None))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
