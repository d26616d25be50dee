"""`python -m tests.bench [name…]`: measures, prints tables, keeps them as JSON under build/bench. Asserts no time."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.bench.measure import Missing, Table, calibrate

FOLDER: Final = Path(__file__).resolve().parents[2] / "build" / "bench"
BENCHES: Final = {
    "codec": "codec",
    "replay": "replay",
    "checkpoint": "checkpoint",
    "commit": "quorum_commit",
    "observers": "quorum_observers",
    "failover": "quorum_failover",
    "catch-up": "quorum_catch_up",
    "topics": "quorum_topics",
    "fencing": "controller_fencing",
    "isr": "controller_isr",
    "memory": "controller_memory",
    "activation": "controller_activation",
    "windows": "controller_windows",
    "tls": "tls",
    "sql": "sql",
    "state-database": "state_database",
    "state-visible": "state_visible",
    "doctor": "doctor",
    "doctor-start": "doctor_start",
    "metadata-shell": "metadata_shell",
    "beside-kafka": "beside_kafka",
    "versions": "versions",
    "few-at-once": "few_at_once",
    "beside-etcd": "beside_etcd",
    "profile": "write_profile",
    "instructions": "instructions",
    "kernel-calls": "kernel_calls",
    "kafka-door": "kafka_door",
    "crowd": "crowd",
    "through-broker": "through_broker",
    "broker-start": "broker_start",
    "beside-brokers": "beside_brokers",
    "broker-wire": "broker_wire",
    "neighbours": "neighbours",
    "start": "start",
    "help": "command_help",
    "heartbeats": "heartbeats",
    "loop_holds": "loop_holds",
    "pipeline_ingest": "pipeline_ingest",
    "pipeline_growth": "pipeline_growth",
    "pipeline_tables": "pipeline_tables",
    "pipeline_memory": "pipeline_memory",
}
"""Each is the `run` of a module beside this one."""
SIZED: Final = (
    "checkpoint",
    "fencing",
    "isr",
    "memory",
    "activation",
    "sql",
    "state-database",
    "doctor",
    "metadata-shell",
)
"""Those that take `--partitions`."""
OF_LOGS: Final = ("pipeline_ingest", "pipeline_growth", "pipeline_tables", "pipeline_memory")
"""Those that take `--records` and `--logs`."""
QUIET: Final = {"GRPC_VERBOSITY": "ERROR", "GRPC_ENABLE_FORK_SUPPORT": "0"}
"""gRPC would tell of each process that is started, and look after itself in it, though that is another program."""


def main() -> None:
    """Run what is named, or everything."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"of {', '.join(BENCHES)}; all if none is given")
    parser.add_argument("--partitions", type=int, nargs="+", help="sizes of clusters, such as 2000000")
    parser.add_argument("--records", type=int, help=f"sizes of logs, for {', '.join(OF_LOGS)}")
    parser.add_argument("--logs", type=Path, help="for these: what `python -m tests.bench.synthetic --to` has made")
    given = parser.parse_args()
    unknown = sorted(set(given.name) - set(BENCHES))
    if unknown:
        parser.error(f"no bench {unknown}; there are {', '.join(BENCHES)}")
    os.environ.update(QUIET)  # read when gRPC is imported
    print(f"Python {platform.python_version()}, {platform.machine()}; calibration loop {calibrate() * 1000:.0f} ms\n")
    for name in given.name or BENCHES:
        bench: Callable[..., list[Table]] = import_module(f"tests.bench.{BENCHES[name]}").run
        try:
            tables = bench(**_sizes(name, given))
        except Missing as missing:
            print(f"{name} is left out: {missing}\n", flush=True)
            continue
        for number, table in enumerate(tables):
            print(table.markdown(), flush=True)
            table.save(FOLDER, f"{name}-{number}" if number else name)


def _sizes(name: str, given: argparse.Namespace) -> dict[str, object]:
    """What was asked for of what the bench takes."""
    if name in SIZED and given.partitions:
        return {"sizes": given.partitions}
    asked = {"records": given.records, "there": given.logs} if name in OF_LOGS else {}
    return {name: value for name, value in asked.items() if value is not None}


if __name__ == "__main__":
    main()
