"""Activation: the first records of a new active controller, which bootstrap a cluster or abort an open transaction."""

from __future__ import annotations

from kraft import Message
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.configs.topic import CONFIGS, MIN_INSYNC_REPLICAS, effective
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import BROKER
from quorate.metadata.features import ELR_VERSION
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST, METADATA_VERSION, TRANSACTIONS
from quorate.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)

__all__ = ["BOOTSTRAP_TRANSACTION", "activate"]

BOOTSTRAP_TRANSACTION = "Bootstrap records"
"""Kafka's name of the transaction that holds the first records."""

ABORT_REASON = "Controller failover"


def activate(bootstrap: tuple[Message, ...], settings: ControllerSettings) -> Command[None]:
    """Returns the first command of a new active controller.

    It aborts an open metadata transaction, and writes the bootstrap records if the log has no metadata.version yet: in
    one transaction, and with ELR followed by a ConfigRecord of min.insync.replicas. `bootstrap` has the records from
    the format step; if it is empty, the cluster starts at the latest metadata.version known here, as Kafka's does at
    its latest released one. No ZkMigrationStateRecord is written: Kafka wrote one up to 4.0 and has left it out since
    4.1. KIP-778, KIP-868, KIP-966.

    The command raises ApiError: INVALID_CONFIG for bootstrap records without a metadata.version; UNKNOWN_SERVER_ERROR
    for a transaction that is open at a metadata.version that has none.
    """

    def command(state: ClusterState, _: Moment) -> Decision[None]:
        open_one = state.transactions.open
        # The open transaction is about to be aborted, and it may hold the first metadata.version itself.
        settled = state if open_one is None else state.at(open_one.start)
        begun = settled.features.metadata_version
        first = () if begun is not None else bootstrap or (FeatureLevelRecord(METADATA_VERSION, LATEST),)
        level = _level_of(first) if begun is None else begun
        records = (*_aborted(state, level), *_wrapped(first, level, settled, settings))
        assert open_one is None or isinstance(records[0], AbortTransactionRecord), records  # I-43
        assert begun is None or len(records) <= 1, f"the log has a beginning already: {records}"
        return Decision(None, records)

    return command


def _aborted(state: ClusterState, level: int) -> tuple[Message, ...]:
    transaction = state.transactions.open
    if transaction is None:
        return ()
    if level < TRANSACTIONS:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"a transaction is open since offset {transaction.start}, "
            f"but transactions exist from metadata.version {TRANSACTIONS} on and this is {level}",
        )
    return (AbortTransactionRecord(ABORT_REASON),)


def _wrapped(
    bootstrap: tuple[Message, ...], level: int, state: ClusterState, settings: ControllerSettings
) -> tuple[Message, ...]:
    records = (*bootstrap, *_min_isr(bootstrap, state, settings)) if bootstrap else ()
    if not records or level < TRANSACTIONS:
        return records
    return (BeginTransactionRecord(BOOTSTRAP_TRANSACTION), *records, EndTransactionRecord())


def _level_of(bootstrap: tuple[Message, ...]) -> int:
    for record in bootstrap:
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            return record.feature_level
    raise ApiError(
        ErrorCode.INVALID_CONFIG, f"the bootstrap records name no {METADATA_VERSION}, which a cluster cannot be without"
    )


def _min_isr(bootstrap: tuple[Message, ...], state: ClusterState, settings: ControllerSettings) -> tuple[Message, ...]:
    """Returns the record of the cluster's default of min.insync.replicas, if the bootstrap records set ELR (KIP-966).

    Its value is that of this controller's file: with ELR every controller has to use the same one. Else no record.
    """
    if not any(isinstance(r, FeatureLevelRecord) and r.name == ELR_VERSION and r.feature_level > 0 for r in bootstrap):
        return ()
    value = effective(CONFIGS[MIN_INSYNC_REPLICAS], topic={}, configs=state.configs, static=settings.static_configs)
    return (ConfigRecord(BROKER, "", MIN_INSYNC_REPLICAS, value.value),)
