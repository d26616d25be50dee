"""The output of the demonstration: the topic, the quorum, the trace, and example commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from deploy.local.plan import PAGE, ClusterPlan, Process
from kraft.api.describe_quorum_pb2 import DescribeQuorumResponse
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsResponse
from quorate.cli.waterfall import waterfall_text
from quorate.traces import SpanData


def topic_table(described: DescribeTopicPartitionsResponse) -> Table:
    """Returns a table of a topic's partitions, one per row."""
    topic = described.topics[0]
    table = Table(
        title=f"topic {topic.name}  {topic.topic_id}", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False
    )
    for column in ("partition", "leader", "leader epoch", "replicas", "ISR"):
        table.add_column(column, justify="right")
    for partition in topic.partitions:
        table.add_row(
            str(partition.partition_index),
            str(partition.leader_id),
            str(partition.leader_epoch),
            ",".join(map(str, partition.replica_nodes)),
            ",".join(map(str, partition.isr_nodes)),
        )
    return table


def quorum_table(described: DescribeQuorumResponse) -> Table:
    """Returns a table of the quorum's voters and observers, one per row."""
    partition = described.topics[0].partitions[0]
    title = f"quorum  leader {partition.leader_id}  epoch {partition.leader_epoch}  HWM {partition.high_watermark}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("node", "status", "log end offset", "lag"):
        table.add_column(column, justify="right")
    leader_end = max(replica.log_end_offset for replica in partition.current_voters)
    for status, replicas in (("Follower", partition.current_voters), ("Observer", partition.observers)):
        for replica in replicas:
            table.add_row(
                str(replica.replica_id),
                "Leader" if replica.replica_id == partition.leader_id else status,
                str(replica.log_end_offset),
                str(max(0, leader_end - replica.log_end_offset)),
            )
    return table


def trace_lines(console: Console, spans: Sequence[SpanData]) -> None:
    """Prints the trace of one request as a waterfall."""
    console.print(waterfall_text(spans, width=max(100, console.width - 1)), soft_wrap=True)


def lines_to_paste(plan: ClusterPlan) -> list[str]:
    """Returns each process's address, commands of grpcurl and `quorate`, and one of Kafka's own if it has gateways."""
    controller, observer = plan.controllers[0].address, plan.observer.address
    topic = '{"topics": [{"name": "payments", "num_partitions": 2, "replication_factor": 3}]}'
    quorum = '{"topics": [{"topic_name": "__cluster_metadata", "partitions": [{}]}]}'
    return [
        *(
            [f"  the page of the observer: http://{plan.observer.settings[PAGE].partition('://')[2]}/", ""]
            if PAGE in plan.observer.settings
            else []
        ),
        *(f"  {each.name:<13} {_doors(each)}" for each in plan.processes),
        "",
        f"  ADDRESS={controller} OBSERVER={observer}",
        f"  grpcurl -plaintext {controller} list",
        f"  grpcurl -plaintext -d '{topic}' {controller} kraft.service.Controller/CreateTopics",
        f"  grpcurl -plaintext -d '{quorum}' {controller} kraft.service.Controller/DescribeQuorum",
        f"  grpcurl -plaintext -d '{{\"limit\": 5}}' {observer} kraft.service.Observer/ListTraces",
        *(
            f"  {_command()} {words}"
            for words in (
                f"quorum --controller {controller}",
                f"topics create invoices --partitions 2 --controller {controller} --dry-run",
                f"history topic/orders --observer {observer}",
                f"what-if --rack b --observer {observer}",
                f'sql "SELECT * FROM under_replicated" --observer {observer}',
                f"trace list --span 'create a topic' --observer {observer}",
                f"doctor --observer {observer}",
            )
        ),
        *(
            [f"  kafka-metadata-quorum.sh --bootstrap-controller {plan.bootstrap_controllers} describe --status"]
            if plan.gateways
            else []
        ),
    ]


def _command() -> Path:
    """Returns where `quorate` is, as it is called from here."""
    beside = Path(sys.executable).with_name("quorate")
    return beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside


def _doors(process: Process) -> str:
    """Returns where a process listens: its gRPC address; of a gateway Kafka's wire, then its health."""
    if process.service != "gateway":
        return process.address
    return f"{process.kafka_address}  Kafka's wire; its gRPC health at {process.address}"
