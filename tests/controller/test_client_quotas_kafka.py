"""Client quotas as Kafka 4.4.0 changes and describes them (`kafka/client_quotas.jsonl`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from kraft.api.alter_client_quotas import AlterClientQuotasRequest
from kraft.api.describe_client_quotas import DescribeClientQuotasRequest
from quorate.controller.commands.alter_client_quotas import alter_client_quotas
from quorate.controller.commands.describe_client_quotas import describe_client_quotas
from quorate.errors import ApiError
from tests.controller.clusters import Cluster

LINES: Final = [
    json.loads(line) for line in (Path(__file__).parent / "kafka" / "client_quotas.jsonl").read_text().splitlines()
]
Asked = AlterClientQuotasRequest.EntryData
Component = DescribeClientQuotasRequest.ComponentData
Described = list[tuple[tuple[tuple[str, str | None], ...], dict[str, float]]]


def request_of(line: dict[str, Any]) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(
        tuple(
            Asked(
                tuple(Asked.EntityData(kind, name) for kind, name in each["entity"]),
                tuple(
                    Asked.OpData(key, remove=True) if value is None else Asked.OpData(key, float(value))
                    for key, value in each["ops"]
                ),
            )
            for each in line["asked"]
        )
    )


def described(cluster: Cluster, filter_: dict[str, Any]) -> int | Described:
    """The error, or entities and quotas in order."""
    request = DescribeClientQuotasRequest(tuple(Component(*each) for each in filter_["components"]), filter_["strict"])
    try:
        response = cluster.decide(describe_client_quotas(request)).response
    except ApiError as refused:
        return int(refused.code)
    return [
        (
            tuple((part.entity_type, part.entity_name) for part in entry.entity),
            {value.key: value.value for value in entry.values},
        )
        for entry in response.entries or ()
    ]


def kafkas(filter_: dict[str, Any]) -> int | Described:
    """The same; Kafka's own order is that of its hash tables."""
    if filter_["error"]:
        return int(filter_["error"])
    entries = [
        (
            tuple(sorted((kind, name) for kind, name in entry["entity"])),
            {key: float(value) for key, value in entry["values"].items()},
        )
        for entry in filter_["entries"]
    ]
    return sorted(entries, key=lambda entry: [(kind, name is not None, name or "") for kind, name in entry[0]])


def test_alters_and_describes_as_kafka_does() -> None:
    """One request after the other, so that each begins where the last one has led."""
    cluster = Cluster(25)
    for number, line in enumerate(LINES):
        decision = cluster.decide(alter_client_quotas(request_of(line)))
        cluster.apply(decision.records)

        assert line["errors"] == [entry.error_code for entry in decision.response.entries], number
        assert line["records"] == len(decision.records), number
        for filter_ in line["described"]:
            assert kafkas(filter_) == described(cluster, filter_), (number, filter_["components"], filter_["strict"])


def test_the_lines_show_something() -> None:
    errors = [error for line in LINES for error in line["errors"]]
    filters = [filter_ for line in LINES for filter_ in line["described"]]

    assert {0, 42} == set(errors)
    assert {0, 35, 42} == {filter_["error"] for filter_ in filters}
    assert min(errors.count(0), errors.count(42)) > 50
    assert sum(1 for filter_ in filters if filter_["components"] and filter_.get("entries")) > 80
    assert sum(line["records"] for line in LINES) > 50
