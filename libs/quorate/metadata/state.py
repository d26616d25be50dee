"""The replicated state machine: `ClusterState` holds one table for each kind of metadata and applies records to them.

Controllers, observers and brokers share this code. It applies a record to the table that the record type belongs to,
and writes the records of a checkpoint (KIP-630) that rebuild the same state. A controller also applies records that
are not committed yet, and may have to undo them: all tables share one snapshot registry. `registry.create(offset)`
marks the state in which all records below `offset` are applied, and `registry.revert_to(offset)` restores it. A replica
that applies committed records only calls `settle` after each batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kraft import Message
from quorate.metadata.acls import Acls
from quorate.metadata.brokers import Brokers
from quorate.metadata.client_quotas import ClientQuotas
from quorate.metadata.configs import Configs
from quorate.metadata.controllers import Controllers
from quorate.metadata.faults import ReplayFault
from quorate.metadata.features import Features
from quorate.metadata.past_view import as_of
from quorate.metadata.producer_ids import ProducerIds
from quorate.metadata.replay import ROWS, TRANSACTION_RECORDS
from quorate.metadata.scram import ScramCredentials
from quorate.metadata.tokens import DelegationTokens
from quorate.metadata.topics import Topics
from quorate.metadata.transactions import Transactions
from quorate.metadata.unknown import Unknown
from quorate.metadata.versions import LATEST
from quorate.nouns import Offset
from quorate.records import FeatureLevelRecord, PartitionRecord
from quorate.timeline import SnapshotRegistry

__all__ = ["ClusterState"]


class ClusterState:
    """The whole state of the cluster, as the records of the metadata log describe it."""

    def __init__(self, supported_features: Mapping[str, tuple[int, int]] | None = None) -> None:
        """Creates an empty state.

        `supported_features` maps each feature to its (lowest, highest) supported level. With it, as on a controller,
        an unsupported level or an unknown record raises ReplayFault; None accepts both, as an observer does.
        """
        self.registry = SnapshotRegistry()
        self.features = Features(self.registry, supported_features)
        self.brokers = Brokers(self.registry)
        self.controllers = Controllers(self.registry)
        self.configs = Configs(self.registry)
        self.topics = Topics(self.registry, self.configs)
        self.client_quotas = ClientQuotas(self.registry)
        self.producer_ids = ProducerIds(self.registry)
        self.acls = Acls(self.registry)
        self.scram = ScramCredentials(self.registry)
        self.delegation_tokens = DelegationTokens(self.registry)
        self.transactions = Transactions(self.registry)
        self.unknown = Unknown(self.registry, are_faults=supported_features is not None)
        self._apply = self._rows()

    def apply(self, record: Message, offset: Offset) -> None:
        """Applies the record at `offset`. Raises ReplayFault, and changes nothing, if it contradicts the state."""
        apply = self._apply.get(type(record))
        assert apply is not None, f"{record!r} is no record of the metadata log, or this is a past state"
        try:
            apply(record, offset)
        except ReplayFault as fault:
            fault.record, fault.offset = record, offset
            raise

    def apply_next(self, records: Sequence[Message], place: int, base_offset: Offset) -> int:
        """Applies the record at index `place` of `records`, and further ones if all are a topic's next partitions.

        Returns the index after them. The first of `records` is at `base_offset`. Raises ReplayFault for the record at
        `place`; then nothing has changed.
        """
        if place + 1 < len(records) and type(records[place]) is type(records[place + 1]) is PartitionRecord:
            assert self._apply, "a past state takes no records"
            count = self.topics.lay_down_next(records, place)
            assert 0 <= count <= len(records) - place, (count, place, len(records))
            if count:
                return place + count
        self.apply(records[place], base_offset + place)
        return place + 1

    def apply_all(self, records: Sequence[Message], base_offset: Offset) -> None:
        """Applies the records from `base_offset` on. Raises ReplayFault for one; the records before it stay applied."""
        place = 0
        while place < len(records):
            place = self.apply_next(records, place, base_offset)

    def load(self, records: Iterable[Message], offset: Offset) -> None:
        """Replaces the state by a checkpoint whose records end at `offset` (exclusive). Drops all snapshots.

        Raises ReplayFault for a record that no checkpoint may hold; the state is unusable after that.
        """
        self.clear()
        self.load_more(records, offset)

    def clear(self) -> None:
        """Empties all tables and drops all snapshots."""
        assert self._apply, "a past state cannot be emptied"
        self.registry.reset()
        assert self.transactions.open is None, self.transactions.open
        assert not len(self.topics), len(self.topics)
        assert not self.topics.partition_count, self.topics.partition_count
        assert not len(self.brokers), len(self.brokers)

    def load_more(self, records: Iterable[Message], offset: Offset) -> None:
        """Applies the next part of a checkpoint whose records end at `offset` (exclusive), after `clear`.

        The state is complete after the last part. Raises ReplayFault; the state is unusable after that.
        """
        assert self._apply, "a past state takes no records"
        assert self.transactions.open is None, f"a checkpoint is loaded into {self.transactions.open}"
        refusals: dict[type[Message], Callable[[Any, Offset], None]] = dict.fromkeys(TRANSACTION_RECORDS, _refuse)
        # A checkpoint gives no offset of a feature record: the level counts as finalized at its last offset.
        levels: dict[type[Message], Callable[[Any, Offset], None]] = {
            FeatureLevelRecord: lambda record, end: self.features.set_level(record, end - 1)
        }
        apply = {**self._apply, **refusals, **levels}
        record: Message | None = None
        try:
            for record in records:
                apply[type(record)](record, offset)
        except ReplayFault as fault:
            fault.record, fault.offset = record, offset
            raise

    def at(self, offset: Offset) -> ClusterState:
        """Returns a read-only view of the state at the snapshot at `offset`, to be read while the snapshot exists."""
        assert self._apply, "a past state has no past of its own"
        past: ClusterState = object.__new__(ClusterState)
        for name, part in vars(self).items():
            setattr(past, name, part if name in ("registry", "_apply") else as_of(part, offset))
        past._apply = {}
        return past

    def settle(self) -> None:
        """Drops the registry's snapshots, which are not needed once all applied records are committed; held ones stay.

        A snapshot at the start of an open metadata transaction is kept, since an abort goes back to it.
        """
        assert self._apply, "a past state has nothing to settle"
        transaction = self.transactions.open
        latest = self.registry.latest
        assert transaction is None or transaction.start in self.registry, transaction
        if transaction is not None:
            self.registry.forget_before(transaction.start)
        elif latest is not None:
            self.registry.forget_before(latest + 1)

    def records(self, metadata_version: int | None = None) -> Iterator[tuple[Message, int]]:
        """Yields the records that rebuild this state, each with the record version to encode it in, in Kafka's order.

        `metadata_version` defaults to the state's own. As in Kafka, fields and records that an older level does not
        have are left out. On a view from `at` the records stay right while newer records are applied.
        """
        assert self.transactions.open is None, f"a state inside {self.transactions.open} is no checkpoint"
        return self.all_records(self.features.record_level if metadata_version is None else metadata_version)

    def all_records(self, metadata_version: int) -> Iterator[tuple[Message, int]]:
        """Yields the same as `records`, also inside a transaction: for a comparison of states, not for a checkpoint."""
        yield from self.features.records(metadata_version)
        yield from self.brokers.records(metadata_version)
        yield from self.controllers.records(metadata_version)
        yield from self.topics.records(metadata_version)
        yield from self.configs.records()
        yield from self.client_quotas.records()
        yield from self.producer_ids.records()
        yield from self.acls.records()
        yield from self.scram.records(metadata_version)
        yield from self.delegation_tokens.records(metadata_version)
        yield from self.unknown.records()

    def __eq__(self, other: object) -> bool:
        """Returns whether both states rebuild from the same records. Slow: it produces every record of both."""
        if not isinstance(other, ClusterState):
            return NotImplemented
        return self._whole() == other._whole()

    __hash__ = None  # type: ignore[assignment]  # a mutable object has no hash

    def _whole(self) -> list[object]:
        return [self.transactions.open, self.features.finalized(), *self.all_records(LATEST)]

    def _rows(self) -> dict[type[Message], Callable[[Any, Offset], None]]:
        # Any: each method accepts only its own record class, the key of its row.
        tables = {type(table): table for table in vars(self).values()}
        return {row.record: partial(row.apply, tables[row.table]) for row in ROWS}


def _refuse(_: Message, __: Offset) -> None:
    raise ReplayFault("a checkpoint is a whole state; it holds no part of a transaction")
