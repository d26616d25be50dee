"""Writes and reads by Kafka's own tools, of 4.4.0: `python -m tests.clients.writes_by_kafkas_tools SERVERS TOPIC`.

The verifiable producer and consumer print a line of JSON for each event. Those tools say the rest as they end, so each
runs in a JVM of its own.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from deploy.kafka.node import ToolFailed, tool
from tests.clients.steps import Step, run
from tests.clients.writing import CODECS, PARTITION, WAIT_S
from tests.interop.kafka.fleet import CONSUMER, PERFORMANCE, TOOLS
from tests.interop.kafka.release import OPERATIONS_POM

EACH: Final = 50
IDEMPOTENT: Final = ("enable.idempotence=true", "retries=10")


class Tools:
    """The tools at these servers, for one topic; `directory` takes their files of settings."""

    def __init__(self, servers: str, topic: str, directory: Path) -> None:
        self._servers = servers
        self._topic = topic
        self._config = directory / "producer.properties"

    def write(self, *settings: str, acks: int = -1) -> str:
        """kafka-verifiable-producer: how many were sent and acknowledged, and at which offsets."""
        self._config.write_text("\n".join(settings))
        how = ("--max-messages", EACH, "--acks", acks, "--command-config", self._config)
        events = _events(self._run(TOOLS + "VerifiableProducer", *how))
        told = [each["offset"] for each in events if each["name"] == "producer_send_success"]
        (end,) = (each for each in events if each["name"] == "tool_data")
        return f"{end['sent']} sent, {end['acked']} acknowledged, {min(told)} to {max(told)}, {len(set(told))} offsets"

    def load(self, count: int) -> str:
        """kafka-producer-perf-test: how many it sent."""
        how = ("--num-records", count, "--record-size", 1000, "--throughput", -1)
        to = ("--producer-props", f"bootstrap.servers={self._servers}", "acks=all", "compression.type=lz4")
        said = tool(PERFORMANCE, "--topic", self._topic, *how, *to, pom=OPERATIONS_POM)
        return said.splitlines()[-1].partition(",")[0]

    def offset(self, time: object) -> str:
        """kafka-get-offsets."""
        said = self._run(TOOLS + "GetOffsetShell", "--topic-partitions", f"{self._topic}:{PARTITION}", "--time", time)
        return said.strip().rpartition(":")[2]

    def read(self, offset: object, count: int) -> str:
        """kafka-console-consumer, which assigns the partition: a digest of what it prints."""
        where = ("--partition", PARTITION, "--offset", offset)
        shown = ("--formatter-property", "print.offset=true", "--formatter-property", "print.headers=true")
        until = ("--max-messages", count, "--timeout-ms", int(WAIT_S * 1000))
        said = self._run(CONSUMER, *where, *shown, *until)
        return f"{len(said.splitlines())} records, {hashlib.sha256(said.encode()).hexdigest()[:12]}"

    def read_in_group(self, count: int) -> str:
        """kafka-verifiable-consumer: how many it reads, and the offset that the group has committed then."""
        how = ("--group-id", f"{self._topic}-readers", "--max-messages", count, "--reset-policy", "earliest")
        events = _events(self._run(TOOLS + "VerifiableConsumer", *how))
        read = sum(each["count"] for each in events if each["name"] == "records_consumed")
        done = [each for each in events if each["name"] == "offsets_committed" and each["success"]]
        return f"{read} records, {done[-1]['offsets'][0]['offset']} committed"

    def _run(self, main: str, *arguments: object) -> str:
        of_all = ("--bootstrap-server", self._servers)
        topic = () if main.endswith("GetOffsetShell") else ("--topic", self._topic)
        return tool(main, *of_all, *topic, *arguments, pom=OPERATIONS_POM)


def _steps(tools: Tools) -> Iterator[Step]:
    for codec in CODECS:
        yield f"verifiable producer, {codec}", _writing(tools, f"compression.type={codec}"), None
    yield "verifiable producer, acks=0", lambda: re.sub(r",.*", "", tools.write(acks=0)), None
    yield "where it ends", lambda: tools.offset(-1), lambda said: said == str(6 * EACH)
    yield "verifiable producer, acks=1", lambda: tools.write(acks=1), None
    yield "verifiable producer, idempotent", lambda: tools.write(*IDEMPOTENT), None
    end = 8 * EACH
    yield "get offsets: earliest", lambda: tools.offset("earliest"), None
    yield "get offsets: latest", lambda: tools.offset("latest"), lambda said: said == str(end)
    yield "get offsets: of a time", lambda: tools.offset(0), None
    yield "console consumer, from the start", lambda: tools.read("earliest", end), None
    yield "console consumer, from an offset", lambda: tools.read(47, 60), None
    yield "verifiable consumer, in a group", lambda: tools.read_in_group(end), None
    yield "producer performance", lambda: tools.load(5_000), None
    yield "get offsets: latest", lambda: tools.offset("latest"), lambda said: said == str(end + 5_000)


def _writing(tools: Tools, setting: str) -> Callable[[], str]:
    return lambda: tools.write(setting)


def _events(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


def _name_of(problem: Exception) -> str:
    kinds = re.findall(r"\.errors\.(\w+Exception)", str(problem)) if isinstance(problem, ToolFailed) else []
    return kinds[0] if kinds else f"{type(problem).__name__}: {' '.join(str(problem).split())[:300]}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        run(_steps(Tools(*sys.argv[1:], Path(directory))), _name_of)
