"""The schema against the message JSON and the classes inside Kafka releases: nothing differs that they tell."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from kraft import Message
from kraft.api.end_quorum_epoch import EndQuorumEpochRequest
from kraft.errors import RETRIABLE, ErrorCode
from quorate.records import CONTROL_RECORDS, RECORDS
from quorate.wire.schema import layout_of
from tests.conformance.message_json import differences
from tests.conformance.plants import plants
from tests.conformance.released import ABSENT, Release, releases, without_comments
from tests.strategies import all_messages

OURS: Final = (4, 4)
"""The schema is that of Kafka 4.4: of an older release it may have more, with a newer one it must be brought along."""

APIS: Final = frozenset(
    {0, 1, 2, 3, 10, *range(17, 25), 27, *range(29, 42), *range(43, 47), *range(48, 65)}
    | {66, 67, 70, 73, 75, 80, 81, 82, 94}
)
"""What a quorum node and a controller speak, and what a broker speaks with them and for them."""

SINCE_OURS: Final = frozenset({"DescribeProducersRequest.topics.name: map_key is False in Kafka, True here"})
"""What 4.4 has changed without a new version: nothing of it is on the wire."""

NOT_OF_THE_METADATA_LOG: Final = frozenset({"ABORT", "COMMIT", "UNKNOWN"})
"""Control record types of transactions on other topics, and of no topic."""

MESSAGES: Final = {layout_of(message).name: message for message in all_messages()}
RELEASES: Final = releases()
if not RELEASES:
    warnings.warn(ABSENT, stacklevel=1)

every_release = pytest.mark.parametrize(
    "release", RELEASES or [pytest.param(None, marks=pytest.mark.skip(ABSENT))], ids=str
)
every_message = pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)


@every_release
@every_message
def test_a_message_is_as_the_release_has_it(release: Release, message: type[Message]) -> None:
    layout = layout_of(message)
    document = release.messages().get(layout.name)
    if document is None and release.version < OURS:
        pytest.skip(f"{release} has no {layout.name} yet")

    assert document is not None, f"{release} has no {layout.name}"
    found = differences(document, layout, exact=release.version >= OURS)
    assert [] == [each for each in found if release.version >= OURS or each not in SINCE_OURS]


@every_release
def test_no_metadata_record_of_the_release_is_missing(release: Release) -> None:
    theirs = {found["apiKey"]: name for name, found in release.messages().items() if found["type"] == "metadata"}
    ours = {key: record.__name__ for key, record in RECORDS.items()}

    assert theirs, release.metadata
    assert {} == {key: name for key, name in theirs.items() if ours.get(key) != name}


@every_release
def test_no_api_of_the_control_plane_is_missing(release: Release) -> None:
    theirs = {
        (found["type"], found["apiKey"]): name
        for name, found in release.messages().items()
        if found["type"] in ("request", "response") and found["apiKey"] in APIS
    }
    known = {key for _, key in theirs}

    assert {(kind, key) for kind in ("request", "response") for key in known} == set(theirs)
    assert [] == sorted(name for name in theirs.values() if name not in MESSAGES)
    assert release.version < OURS or known == APIS, APIS - known


@every_release
def test_every_difference_that_a_release_could_make_is_reported(release: Release) -> None:
    """What is compared is compared in truth: one wrong thing anywhere in Kafka's JSON, and a line says so."""
    right = {name: found for name, found in release.messages().items() if name in MESSAGES}
    same = {name for name in right if not differences(right[name], layout_of(MESSAGES[name]), exact=True)}
    planted = [(name, *plant) for name in sorted(same) for plant in plants(right[name])]
    unseen = [f"{name} {label}" for name, label, wrong in planted if not _seen(wrong, MESSAGES[name])]

    assert [] == unseen
    assert len(planted) > 5000, f"{len(planted)} plants in {len(same)} messages"


def _seen(wrong: Any, message: type[Message]) -> bool:
    return bool(differences(wrong, layout_of(message), exact=True))


# The same without any release on this machine: one message, written down by hand as Kafka would.

END_QUORUM_EPOCH: Final = """
// A comment, as Kafka's files have them.
{ "apiKey": 54, "type": "request", "name": "EndQuorumEpochRequest",
  "validVersions": "0-1", "flexibleVersions": "1+", // flexible with KIP-853
  "fields": [
    { "name": "ClusterId", "type": "string", "versions": "0+", "nullableVersions": "0+", "default": "null" },
    { "name": "Topics", "type": "[]TopicData", "versions": "0+", "fields": [
      { "name": "TopicName", "type": "string", "versions": "0+" },
      { "name": "Partitions", "type": "[]PartitionData", "versions": "0+", "fields": [
        { "name": "PartitionIndex", "type": "int32", "versions": "0+" },
        { "name": "LeaderId", "type": "int32", "versions": "0+" },
        { "name": "LeaderEpoch", "type": "int32", "versions": "0+" },
        { "name": "PreferredSuccessors", "type": "[]int32", "versions": "0", "ignorable": true },
        { "name": "PreferredCandidates", "type": "[]ReplicaInfo", "versions": "1+", "ignorable": true, "fields": [
          { "name": "CandidateId", "type": "int32", "versions": "1+" },
          { "name": "CandidateDirectoryId", "type": "uuid", "versions": "1+" } ] } ] } ] },
    { "name": "LeaderEndpoints", "type": "[]LeaderEndpoint", "versions": "1+", "ignorable": true, "fields": [
      { "name": "Name", "type": "string", "versions": "1+", "mapKey": true },
      { "name": "Host", "type": "string", "versions": "1+" },
      { "name": "Port", "type": "uint16", "versions": "1+" } ] } ] }
"""


def test_a_field_that_ends_before_the_flexible_versions_is_compared() -> None:
    document = without_comments(END_QUORUM_EPOCH)
    partition = document["fields"][1]["fields"][1]["fields"]
    (successors,) = [field for field in partition if field["name"] == "PreferredSuccessors"]

    assert [] == differences(document, layout_of(EndQuorumEpochRequest), exact=True)

    successors["versions"] = "0+"

    assert ["EndQuorumEpochRequest.topics.partitions.preferredsuccessors: until is 32768 in Kafka, 0 here"] == (
        differences(document, layout_of(EndQuorumEpochRequest), exact=True)
    )


@pytest.mark.parametrize(
    ("label", "wrong"), list(plants(without_comments(END_QUORUM_EPOCH))), ids=lambda given: str(given)[:40]
)
def test_one_wrong_thing_is_reported(label: str, wrong: Any) -> None:
    assert differences(wrong, layout_of(EndQuorumEpochRequest), exact=True), label


def test_only_a_release_that_is_not_older_must_have_our_last_version() -> None:
    older = without_comments(END_QUORUM_EPOCH.replace('"0-1"', '"0"').replace('"1+"', '"0+"'))
    newer = without_comments(END_QUORUM_EPOCH.replace('"0-1"', '"0-2"'))
    flexible = "EndQuorumEpochRequest: flexible since 0 in Kafka, since 1 here"
    last = "EndQuorumEpochRequest: the last version is 0 in Kafka, 1 here"
    layout = layout_of(EndQuorumEpochRequest)

    assert flexible in differences(older, layout, exact=False)
    assert last not in differences(older, layout, exact=False)
    assert last in differences(older, layout, exact=True)
    assert ["EndQuorumEpochRequest: new in Kafka: versions 2 to 2; here they end"] == differences(
        newer, layout, exact=False
    )


# What only the classes know.


@cache
def constants(release: Release) -> list[list[str]]:
    """The rows of Constants.java: kind, number, name and, of an error, whether it is retriable."""
    if shutil.which("java") is None:
        pytest.skip(f"java is not on PATH, so the error codes of {release} are compared with NOTHING: install a JDK 17")
    if release.slf4j is None:
        pytest.skip(f"no slf4j-api jar beside {release.clients}, without which its classes do not load")
    source = Path(__file__).with_name("Constants.java")
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{release.clients}:{release.slf4j}", str(source)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return [line.split("\t") for line in ran.stdout.splitlines()]


@every_release
def test_error_codes_have_kafkas_names_numbers_and_retries(release: Release) -> None:
    theirs = {
        (int(number), name, retry == "true")
        for kind, number, name, *rest in constants(release)
        if kind == "error"
        for retry in rest
    }
    ours = {(code.value, code.name, code in RETRIABLE) for code in ErrorCode}

    assert theirs
    assert set() == theirs - ours, "new or other in Kafka"
    assert release.version < OURS or ours == theirs, ours - theirs


@every_release
def test_no_control_record_type_of_the_metadata_log_is_missing(release: Release) -> None:
    rows = [row for row in constants(release) if row[0] == "control"]

    assert {int(number) for _, number, name in rows if name not in NOT_OF_THE_METADATA_LOG} == set(CONTROL_RECORDS)
