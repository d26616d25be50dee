"""`make run KAFKA=1 ONCE=1`, as a person would call it: brokers and tools of a Kafka release on the control plane."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from deploy.local.kafka import RECORDS
from deploy.local.processes import ROOT
from tests.interop.kafka.release import absent

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.timeout(900),
]

BROKERS = (101, 102, 103)


def test_kafkas_tools_make_a_topic_write_and_read_and_the_trace_begins_at_the_brokers_envelope(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    command = ["make", "run", "KAFKA=1", "ONCE=1", f"CURDIR={tmp_path}"]
    ran = subprocess.run(
        command, cwd=ROOT, env={**environ, "COLUMNS": "120"}, check=False, capture_output=True, text=True
    )
    printed = ran.stdout

    assert (0, "") == (ran.returncode, ran.stderr)
    assert "12 services, 3 brokers of Kafka" in printed
    assert "\nCreated topic orders.\n" in printed
    assert sorted(RECORDS) == sorted(set(printed.splitlines()) & set(RECORDS))
    partitions = re.findall(r"^ +[012] +(10[123]) +\d+ +([\d,]+) +([\d,]+) *$", printed, re.M)
    assert list(BROKERS) == sorted(int(leader) for leader, _, _ in partitions)
    for _, replicas, isr in partitions:
        assert list(BROKERS) == sorted(map(int, replicas.split(","))) == sorted(map(int, isr.split(",")))
    assert "stopping" == printed.splitlines()[-1]

    assert re.search(r"^Envelope +gateway-[123] ", printed, re.M)
    assert re.search(r"^  CreateTopics +gateway-[123] ", printed, re.M)
    assert re.search(r"^    CreateTopics +controller-[123] ", printed, re.M)
    shown = set(re.findall(r"^ +(write|commit|append|apply) +(\S+)-\d+ ", printed, re.M))
    assert {
        ("write", "controller"),
        ("commit", "controller"),
        ("append", "quorum"),
        ("apply", "controller"),
        ("apply", "heartbeat"),
        ("apply", "observer"),
    } == shown

    for broker_id in BROKERS:
        said = (tmp_path / "run" / f"broker-{broker_id}" / "server.out").read_text()
        assert "shut down completed" in said, "a broker ends in good order, while there is a control plane"
