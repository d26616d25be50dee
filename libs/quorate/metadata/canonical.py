"""A canonical hash of the whole state: equal states have equal hashes, however they were built."""

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
    """Returns the SHA-256, in hex, of the state's records, each with its length before it, and of the open transaction.

    The hash does not depend on the order of creation or on PYTHONHASHSEED. It is equal for a state that was replayed
    from the log, loaded from a checkpoint, or both in part.
    """
    digest = hashlib.sha256()
    for value in canonical_records(state):
        digest.update(len(value).to_bytes(4, "big"))
        digest.update(value)
    digest.update(repr(state.transactions.open).encode())
    return digest.hexdigest()


def canonical_records(state: ClusterState) -> Iterator[bytes]:
    """Yields the encoded records of the state, in a fixed order, at the newest level, so that nothing is left out."""
    for record, version in state.all_records(LATEST):
        if isinstance(record, ZkMigrationStateRecord) and record.zk_migration_state == _ZK_NONE:
            continue  # Kafka 4.4 drops it from checkpoints: state "none" equals no record at all.
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            record = FeatureLevelRecord(METADATA_VERSION, state.features.level(METADATA_VERSION))
        yield encode_record(record, version)
