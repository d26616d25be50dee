"""The replay table: for each record type the table of the state and the method that applies it.

Records that are not here cannot be in a metadata log. A test compares the rows with `protos/kraft/metadata`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from kraft import Message
from quorate.metadata.acls import Acls
from quorate.metadata.brokers import Brokers
from quorate.metadata.client_quotas import ClientQuotas
from quorate.metadata.configs import Configs
from quorate.metadata.controllers import Controllers
from quorate.metadata.features import Features
from quorate.metadata.producer_ids import ProducerIds
from quorate.metadata.scram import ScramCredentials
from quorate.metadata.tokens import DelegationTokens
from quorate.metadata.topics import Topics
from quorate.metadata.transactions import Transactions
from quorate.metadata.unknown import Unknown
from quorate.nouns import Offset
from quorate.records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnknownRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)

__all__ = ["ROWS", "TRANSACTION_RECORDS", "ReplayRow"]

T = TypeVar("T")
R = TypeVar("R", bound=Message)


class ReplayRow(NamedTuple):
    """One row of the replay table: the method `apply` of class `table` applies records of class `record`."""

    record: type[Message]
    table: type[Any]
    # Any: the function `row` has checked that the three types match; a tuple of rows cannot express it.
    apply: Callable[[Any, Any, Offset], None]


def row(record: type[R], table: type[T], apply: Callable[[T, R, Offset], None]) -> ReplayRow:
    """Returns a row of the replay table. The type checker verifies by the signature that the method fits the record."""
    return ReplayRow(record, table, apply)


ROWS: Final = (
    row(FeatureLevelRecord, Features, Features.set_level),
    row(ZkMigrationStateRecord, Features, Features.set_zk_migration_state),
    row(NoOpRecord, Features, Features.do_nothing),
    row(RegisterBrokerRecord, Brokers, Brokers.register),
    row(UnregisterBrokerRecord, Brokers, Brokers.unregister),
    row(BrokerRegistrationChangeRecord, Brokers, Brokers.change),
    row(FenceBrokerRecord, Brokers, Brokers.fence),
    row(UnfenceBrokerRecord, Brokers, Brokers.unfence),
    row(RegisterControllerRecord, Controllers, Controllers.register),
    row(UnregisterControllerRecord, Controllers, Controllers.unregister),
    row(TopicRecord, Topics, Topics.create),
    row(RemoveTopicRecord, Topics, Topics.remove),
    row(PartitionRecord, Topics, Topics.lay_down),
    row(PartitionChangeRecord, Topics, Topics.change),
    row(ClearElrRecord, Topics, Topics.clear_elr),
    row(ConfigRecord, Configs, Configs.set),
    row(ClientQuotaRecord, ClientQuotas, ClientQuotas.set),
    row(ProducerIdsRecord, ProducerIds, ProducerIds.give_out),
    row(AccessControlEntryRecord, Acls, Acls.add),
    row(RemoveAccessControlEntryRecord, Acls, Acls.remove),
    row(UserScramCredentialRecord, ScramCredentials, ScramCredentials.set),
    row(RemoveUserScramCredentialRecord, ScramCredentials, ScramCredentials.remove),
    row(DelegationTokenRecord, DelegationTokens, DelegationTokens.set),
    row(RemoveDelegationTokenRecord, DelegationTokens, DelegationTokens.remove),
    row(BeginTransactionRecord, Transactions, Transactions.begin),
    row(EndTransactionRecord, Transactions, Transactions.end),
    row(AbortTransactionRecord, Transactions, Transactions.abort),
    row(UnknownRecord, Unknown, Unknown.keep),
)
"""How every record type is applied, on controllers, observers and brokers alike."""

TRANSACTION_RECORDS: Final = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)
"""The transaction records, which a checkpoint must not hold, since it is a state between transactions. KIP-868."""

assert len({row.record for row in ROWS}) == len(ROWS), "one row a record type"
