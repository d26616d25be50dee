"""Levels of metadata.version: their names, and the record versions that follow. Read off the released 4.4.0."""

from __future__ import annotations

import pytest

from kraft import Message, Uuid
from quorate.metadata.features import FEATURES, default_levels
from quorate.metadata.versions import LATEST, OLDEST, RELEASES, level_of, record_version, release_of
from quorate.records import (
    RECORDS,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnknownRecord,
    encode_record,
)

DIRECTORY = Uuid(bytes([9]) * 16)

# Level, name, versions of RegisterBroker, Partition and PartitionChange, as MetadataVersion of 4.4.0 answers.
LEVELS = [
    (7, "3.3-IV3", 1, 0),
    (8, "3.4-IV0", 2, 0),
    (11, "3.5-IV2", 2, 0),
    (14, "3.6-IV2", 2, 0),
    (16, "3.7-IV1", 2, 0),
    (17, "3.7-IV2", 3, 1),
    (19, "3.7-IV4", 3, 1),
    (20, "3.8-IV0", 3, 1),
    (21, "3.9-IV0", 3, 1),
    (22, "4.0-IV0", 3, 1),
    (23, "4.0-IV1", 3, 2),
    (25, "4.0-IV3", 3, 2),
    (27, "4.1-IV1", 3, 2),
    (29, "4.2-IV1", 3, 2),
    (30, "4.3-IV0", 4, 2),
    (31, "4.4-IV0", 4, 2),
    (33, "4.4-IV2", 4, 2),
]


@pytest.mark.parametrize(("level", "release", "register_broker", "partition"), LEVELS)
def test_a_level_has_a_name_and_implies_record_versions(
    level: int, release: str, register_broker: int, partition: int
) -> None:
    assert release == release_of(level)
    assert level == level_of(release) == level_of(str(level))
    assert register_broker == record_version(RegisterBrokerRecord(), level)
    assert partition == record_version(PartitionRecord(), level)
    assert partition == record_version(PartitionChangeRecord(), level)
    assert record_version(RegisterControllerRecord(), level) == 0


@pytest.mark.parametrize(("release", "level"), [("3.6", 14), ("4.0", 25), ("4.1", 27), ("4.3", 30), ("4.4", 33)])
def test_a_release_is_its_last_level(release: str, level: int) -> None:
    assert level == level_of(release)


def test_what_is_no_release_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"'4\.9' is no metadata\.version: known are 3\.3-IV3 to 4\.4-IV2"):
        level_of("4.9")


@pytest.mark.parametrize(
    ("record", "version"),
    [
        (BrokerRegistrationChangeRecord(1, 1, fenced=1), 0),
        (BrokerRegistrationChangeRecord(1, 1, fenced=1, in_controlled_shutdown=1), 1),
        (BrokerRegistrationChangeRecord(1, 1, in_controlled_shutdown=1, log_dirs=(DIRECTORY,)), 2),
        (BrokerRegistrationChangeRecord(1, 1, cordoned_log_dirs=()), 3),
        (UnknownRecord(99, 5, b""), 5),
    ],
)
def test_the_lowest_version_that_has_room(record: Message, version: int) -> None:
    assert version == record_version(record, LATEST)


@pytest.mark.parametrize("level", RELEASES)
def test_every_record_can_be_written_at_every_level(level: int) -> None:
    for record in RECORDS.values():
        assert encode_record(record(), record_version(record(), level))


def test_features_of_new_clusters() -> None:
    assert default_levels(7) == {}
    assert default_levels(25) == {"group.version": 1, "transaction.version": 2}
    assert default_levels(33) == {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 2,
    }
    for feature in FEATURES.values():
        assert list(feature.levels) == sorted(feature.levels)
        assert all(OLDEST <= since <= LATEST for since in feature.levels)
