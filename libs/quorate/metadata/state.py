"""The replicated state: the tables together, what a record does to them, and the records that rebuild them.

Shared by controllers, observers and brokers. A controller applies what is not committed yet and may have to
go back: every table hangs on one registry of snapshots, so `registry.create(offset)` marks the state with all
records below `offset` applied, and `registry.revert_to(offset)` brings it back. Who applies committed records
only calls `settle` after each batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
from quorate.metadata.past import as_of
from quorate.metadata.producer_ids import ProducerIds
from quorate.metadata.replay import ROWS, TRANSACTION_RECORDS
from quorate.metadata.scram import ScramCredentials
from quorate.metadata.tokens import DelegationTokens
from quorate.metadata.topics import Topics
from quorate.metadata.transactions import Transactions
from quorate.metadata.unknown import Unknown
from quorate.metadata.versions import LATEST
from quorate.nouns import Offset
from quorate.timeline import SnapshotRegistry

__all__ = ["ClusterState"]


class ClusterState:
    """Everything that the metadata log says, and can be asked."""

    def __init__(self, supported_features: Mapping[str, tuple[int, int]] | None = None) -> None:
        """`supported_features`: (lowest, highest) by name; see `Features`."""
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
        self.unknown = Unknown(self.registry)
        self._apply = self._rows()

    def apply(self, record: Message, offset: Offset) -> None:
        """Let `record`, which lies at `offset`, take effect. Raises ReplayFault, and changes nothing, if it cannot."""
        apply = self._apply.get(type(record))
        assert apply is not None, f"{record!r} is no record of the metadata log, or this is a past state"
        try:
            apply(record, offset)
        except ReplayFault as fault:
            fault.record, fault.offset = record, offset
            raise

    def load(self, records: Iterable[Message], offset: Offset) -> None:
        """Become what a checkpoint says that ends at `offset` (exclusive). All snapshots are gone.

        Raises ReplayFault for what no checkpoint may hold; the state is then of no use.
        """
        self.clear()
        self.load_more(records, offset)

    def clear(self) -> None:
        """Be as when made; all snapshots are gone."""
        self.registry.reset()

    def load_more(self, records: Iterable[Message], offset: Offset) -> None:
        """Take in a part of a checkpoint, as `load`: the state is whole when all parts are in."""
        refusals: dict[type[Message], Callable[[Any, Offset], None]] = dict.fromkeys(TRANSACTION_RECORDS, _refuse)
        apply = {**self._apply, **refusals}
        record: Message | None = None
        try:
            for record in records:
                apply[type(record)](record, offset)
        except ReplayFault as fault:
            fault.record, fault.offset = record, offset
            raise

    def at(self, offset: Offset) -> ClusterState:
        """The state at the snapshot at `offset`: the same reads and `records`, no writes."""
        past: ClusterState = object.__new__(ClusterState)
        for name, part in vars(self).items():
            setattr(past, name, part if name in ("registry", "_apply") else as_of(part, offset))
        past._apply = {}
        return past

    def settle(self) -> None:
        """All that was applied is committed: forget every snapshot that no open transaction may go back to."""
        transaction = self.transactions.open
        latest = self.registry.latest
        if transaction is not None:
            self.registry.forget_before(transaction.start)
        elif latest is not None:
            self.registry.forget_before(latest + 1)

    def records(self, metadata_version: int | None = None) -> Iterator[tuple[Message, int]]:
        """The records that rebuild this state, each with the version it is written in, in Kafka's order.

        `metadata_version` is the state's own if not given. What an older one has no room for is left out, as
        Kafka does. The state may be a past one (`at`) while the present moves on.
        """
        assert self.transactions.open is None, f"a state inside {self.transactions.open} is no checkpoint"
        return self.all_records(self.features.record_level if metadata_version is None else metadata_version)

    def all_records(self, metadata_version: int) -> Iterator[tuple[Message, int]]:
        """As `records`, of a state inside a transaction too: to compare states, not to keep them."""
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
        """Do both states rebuild from the same records? Slow: it writes them all."""
        if not isinstance(other, ClusterState):
            return NotImplemented
        return self._whole() == other._whole()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def _whole(self) -> list[object]:
        return [self.transactions.open, self.features.finalized(), *self.all_records(LATEST)]

    def _rows(self) -> dict[type[Message], Callable[[Any, Offset], None]]:
        # Any: each method takes its own record class; the dict's key says which.
        tables = {type(table): table for table in vars(self).values()}
        return {row.record: partial(row.apply, tables[row.table]) for row in ROWS}


def _refuse(_: Message, __: Offset) -> None:
    raise ReplayFault("a checkpoint is a whole state; it holds no part of a transaction")
