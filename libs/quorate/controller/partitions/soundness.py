"""Soundness of a partition: what is true of each one that our controllers write, but maybe not in a foreign log."""

from __future__ import annotations

from quorate.metadata.partitions import Partition

__all__ = ["is_sound"]


def is_sound(partition: Partition) -> bool:
    """Returns whether the partition's lists are as our controllers keep them. I-46.

    ISR, adding and removing replicas are replicas, and none is both adding and removing. A log that another program
    wrote, or that was edited, may have other lists: they are replayed as they are, and decisions must bear them.
    """
    adding, removing = partition.adding_replicas, partition.removing_replicas
    return {*partition.isr, *adding, *removing}.issubset(partition.replicas) and set(adding).isdisjoint(removing)
