"""One number for a whole state: equal states have equal ones, however they came about."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST, METADATA_VERSION
from quorate.records import FeatureLevelRecord, ZkMigrationStateRecord, encode_record

__all__ = ["canonical", "canonical_records"]

_ZK_NONE: Final = 0


def canonical(state: ClusterState) -> str:
    """SHA-256 in hex of the state's records, each with its length before it.

    Independent of the order in which things were made and of PYTHONHASHSEED; equal for a state replayed
    from the log, loaded from a checkpoint, or part one and part the other.
    """
    digest = hashlib.sha256()
    for value in canonical_records(state):
        digest.update(len(value).to_bytes(4, "big"))
        digest.update(value)
    digest.update(repr(state.transactions.open).encode())
    return digest.hexdigest()


def canonical_records(state: ClusterState) -> Iterator[bytes]:
    """The state's records as bytes, in order, at the newest level: so that nothing is left out."""
    for record, version in state.all_records(LATEST):
        if isinstance(record, ZkMigrationStateRecord) and record.zk_migration_state == _ZK_NONE:
            continue  # Kafka 4.4 drops it from checkpoints; to have none and to know of none is the same.
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            record = FeatureLevelRecord(METADATA_VERSION, state.features.level(METADATA_VERSION))
        yield encode_record(record, version)
