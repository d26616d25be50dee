"""The bootstrap records of a new cluster, as `quorate storage format` or Kafka's storage tool wrote them."""

from __future__ import annotations

from pathlib import Path

from kraft import Message
from quorate.errors import Corrupt
from quorate.records import FeatureLevelRecord, decode_record
from quorate.storage.names import BOOTSTRAP, BOOTSTRAP_ID, PARTITION_DIRECTORY, checkpoint_file
from quorate.storage.snapshots import SnapshotReader


def read_bootstrap(directory: Path, feature: str) -> tuple[Message, ...]:
    """Returns the bootstrap records of a log directory; empty if no file has any. Raises Corrupt, naming the file.

    Records without a FeatureLevelRecord of `feature` are Corrupt, too: a cluster begins with one.

    Since 4.4 they are in the checkpoint at offset 0, beside the first voters, and bootstrap.checkpoint is read only if
    that has none (QuorumController's handleLoadBootstrap, BootstrapMetadata.fromDirectory).
    """
    if records := _records_in(checkpoint_file(directory / PARTITION_DIRECTORY, BOOTSTRAP_ID), feature):
        return records
    return _records_in(directory / BOOTSTRAP, feature) or ()


def _records_in(path: Path, feature: str) -> tuple[Message, ...] | None:
    """Returns a checkpoint's records without control records; None if the file does not exist."""
    try:
        reader = SnapshotReader(path)
    except FileNotFoundError:  # the node may have removed it: its log continues from another checkpoint
        return None
    try:
        records = tuple(map(decode_record, reader.values()))
    except Corrupt as damage:
        raise damage if damage.path else damage.at(path) from None
    finally:
        reader.close()
    if records and not any(isinstance(each, FeatureLevelRecord) and each.name == feature for each in records):
        raise Corrupt(f"its {len(records)} records name no {feature}, with which a cluster begins", path=path)
    return records
