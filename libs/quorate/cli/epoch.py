"""`quorate storage reset-epoch`: sets the epoch of a stopped node to a lower one.

It repairs a node that took over another cluster's epoch, or the highest possible one. A node never lowers its epoch by
itself, as it may have voted in the lower one; only an operator can know that it has not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from quorate.cli.documents import is_document, print_document
from quorate.cli.failures import Failed
from quorate.cli.node_config import read_node_config
from quorate.cli.reading import check_regular
from quorate.errors import Corrupt
from quorate.nouns import EPOCHS_END, Epoch
from quorate.storage.election_file import ElectionFile
from quorate.storage.epochs_file import EpochsFile
from quorate.storage.lock import DirectoryLock, Locked
from quorate.storage.meta_properties import check_owner
from quorate.storage.names import LOG, PARTITION_DIRECTORY, checkpoint_ids, segment_bases, segment_file
from quorate.wire.batch import batches

__all__ = ["reset_epoch"]

RULE: Final = "it must be above every epoch in which a voter of this cluster has ever voted"


def reset_epoch(config: Path, epoch: Epoch, *, output: str) -> None:
    """Sets the stored epoch of a stopped node to `epoch`, a lower one, and prints the change. Its vote is forgotten.

    `config` is its server.properties. Raises Failed if the node runs, or for an epoch that is not below the stored one
    and above the log's; Corrupt, OSError. Nothing is changed then.
    """
    node = read_node_config(config)
    directory = node.metadata_directory
    check_regular(*(each for each in (directory, directory / PARTITION_DIRECTORY) if each.is_dir()))
    meta = check_owner(directory, node_id=node.node_id)
    try:
        with DirectoryLock(directory):
            before = _reset(directory / PARTITION_DIRECTORY, epoch)
    except Locked as other:
        raise Failed(f"{other}: stop the node first") from None
    if is_document(output):
        document = {"nodeId": meta.node_id, "clusterId": meta.cluster_id, "epochBefore": before, "epoch": epoch}
        print_document(document, output)
    else:
        print(f"Node {meta.node_id} of cluster {meta.cluster_id}: epoch {before} is now {epoch}, no leader, no vote.")


def _reset(partition: Path, epoch: Epoch) -> Epoch:
    """Writes a lower epoch to quorum-state; returns the epoch before. Raises Failed if it may not be, Corrupt."""
    file = ElectionFile(partition)
    stored = file.stored()
    if stored is None:
        raise Failed(f"{file.path} does not exist: this node has not been in any epoch yet")
    last = _last_epoch(partition)
    if not epoch < min(stored.epoch, EPOCHS_END):
        raise Failed(f"--epoch {epoch}: {file.path} has epoch {stored.epoch}; only a lower one is set by hand, {RULE}")
    if epoch <= last:
        raise Failed(f"--epoch {epoch}: the log in {partition} ends in epoch {last}; {RULE}")
    file.reset(epoch)
    return stored.epoch


def _last_epoch(partition: Path) -> Epoch:
    """Returns the highest epoch in the checkpoints, leader-epoch-checkpoint and the last batches; 0 without any.

    The batches are those of the last segment that has one, up to the first damage: a roll makes its segment empty.
    """
    found = [0, *(each.epoch for each in checkpoint_ids(partition))]
    found += [epoch for epoch, _ in EpochsFile(partition).read()]
    for base in reversed(segment_bases(partition)):
        epochs = []
        try:
            for _, header in batches(segment_file(partition, base, LOG).read_bytes()):
                epochs.append(header.epoch)
        except Corrupt:  # a torn tail, which the node's next start truncates
            pass
        if epochs:
            return max(*found, *epochs)
    return max(found)
