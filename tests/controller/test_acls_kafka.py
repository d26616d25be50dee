"""Access control entries as Kafka 4.4.0 creates and deletes them (`kafka/acl_changes.jsonl`)."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias

from kraft.api.create_acls import CreateAclsRequest
from kraft.api.delete_acls import DeleteAclsRequest
from kraft.api.delete_acls import DeleteAclsResponse as Deleted
from quorate.controller.commands.create_acls import create_acls
from quorate.controller.commands.delete_acls import delete_acls
from quorate.metadata.versions import METADATA_VERSION
from quorate.records import AccessControlEntryRecord, FeatureLevelRecord
from tests.controller.clusters import Cluster, uuid

LINES: Final = [
    json.loads(line) for line in (Path(__file__).parent / "kafka" / "acl_changes.jsonl").read_text().splitlines()
]
Fields: TypeAlias = list[Any]
Match: TypeAlias = AccessControlEntryRecord | Deleted.DeleteAclsFilterResult.DeleteAclsMatchingAcl


def fields(entry: Match) -> Fields:
    """As Kafka's line has them."""
    return [
        *(entry.resource_type, entry.resource_name, entry.pattern_type, entry.principal, entry.host),
        *(entry.operation, entry.permission_type),
    ]


def test_creates_and_deletes_as_kafka_does() -> None:
    """One request after the other, so that each begins where the last one has led. What AclApis checks before (the
    name of the cluster) is in none of them."""
    cluster, numbers = Cluster(31), count(1)
    for number, line in enumerate(LINES):
        if line["api"] == "create":
            cluster.apply([FeatureLevelRecord(METADATA_VERSION, line["level"])])
            creations = tuple(CreateAclsRequest.AclCreation(kind, name, *rest) for kind, name, *rest in line["asked"])
            command = create_acls(CreateAclsRequest(creations), new_acl_id=lambda: uuid(next(numbers)))
            decision = cluster.decide(command)
            cluster.apply(decision.records)

            assert line["errors"] == [result.error_code for result in decision.response.results], number
            assert line["records"] == len(decision.records), number
        else:
            filters = tuple(DeleteAclsRequest.DeleteAclsFilter(*asked) for asked in line["asked"])
            deletion = cluster.decide(delete_acls(DeleteAclsRequest(filters)))
            cluster.apply(deletion.records)
            results = deletion.response.filter_results

            assert line["errors"] == [result.error_code for result in results], number
            assert [sorted(matches) for matches in line["matches"]] == [
                sorted(fields(match) for match in result.matching_acls) for result in results
            ], number
            assert line["records"] == len(deletion.records), number

        assert sorted(line["entries"]) == sorted(fields(entry) for entry in cluster.state.acls), number


def test_the_lines_show_something() -> None:
    errors = [error for line in LINES for error in line["errors"]]

    assert {0, 35, 42} == set(errors)
    assert min(errors.count(code) for code in (0, 35, 42)) > 20
    assert sum(len(matches) for line in LINES if line["api"] == "delete" for matches in line["matches"]) > 80
    assert any(line["records"] < line["errors"].count(0) for line in LINES if line["api"] == "create")
