"""The first records of a new active controller, against a Kafka release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Moment
from quorate.errors import ApiError
from quorate.metadata.features import ELR_VERSION
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST, METADATA_VERSION, record_version
from quorate.records import (
    RECORDS,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
)
from quorate.wire.protobuf import json_form

NOW = Moment(next_offset=9, now_ms=0)
CASES = [
    json.loads(line) for line in (Path(__file__).parent / "kafka/activation_records.jsonl").read_text().splitlines()
]
KEYS = {record: key for key, record in RECORDS.items()}


def named(case: dict[str, Any]) -> str:
    log = "empty log" if case["empty"] else "log"
    return f"{log} at {case['level']}{' with ELR' * case['elr']}, transaction at {case['transaction_start']}"


def state_of(case: dict[str, Any]) -> ClusterState:
    state = ClusterState()
    if not case["empty"]:
        state.apply(FeatureLevelRecord(METADATA_VERSION, case["level"]), 0)
    if case["transaction_start"] >= 0:
        state.apply(BeginTransactionRecord("Bootstrap records"), case["transaction_start"])
    return state


@pytest.mark.parametrize("case", CASES, ids=named)
def test_begins_as_kafka_begins(case: dict[str, Any]) -> None:
    features = {METADATA_VERSION: case["level"], **({ELR_VERSION: 1} if case["elr"] else {})}
    bootstrap = tuple(FeatureLevelRecord(name, level) for name, level in features.items())
    command = activate(
        bootstrap, ControllerSettings(static_configs={"min.insync.replicas": str(case["default_min_isr"])})
    )
    if case.get("refused"):
        with pytest.raises(ApiError, match="transaction is open since offset 5"):
            command(state_of(case), NOW)
        return
    records = command(state_of(case), NOW).records

    assert [row["data"] for row in case["records"]] == [json_form(record) for record in records]
    assert [row["version"] for row in case["records"]] == [record_version(record, case["level"]) for record in records]


def test_a_cluster_without_a_checkpoint_begins_at_the_latest_level() -> None:
    records = activate((), ControllerSettings())(ClusterState(), NOW).records

    assert (
        BeginTransactionRecord("Bootstrap records"),
        FeatureLevelRecord(METADATA_VERSION, LATEST),
        EndTransactionRecord(),
    ) == records


def test_refuses_bootstrap_records_without_a_version() -> None:
    with pytest.raises(ApiError, match=r"name no metadata\.version"):
        activate((NoOpRecord(),), ControllerSettings())(ClusterState(), NOW)
