"""BrokerRegistration (62): registers a broker process and gives it its broker epoch. KIP-631, KIP-858, KIP-966."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kraft import Uuid
from kraft.api.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.controller.partitions.broker_changes import leaving, unclean_stop
from quorate.controller.partitions.chunked_change import (
    DEFAULT_LIMITS,
    ChunkLimits,
    Key,
    chunks_of,
    epoch_of,
    in_isr,
    in_isr_or_elr,
    present,
)
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.brokers import Broker
from quorate.metadata.features import KRAFT_VERSION
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import TopicPartition
from quorate.metadata.versions import DIRECTORIES, METADATA_VERSION
from quorate.nouns import NodeId, reserved_uuid, uuid_text
from quorate.records import PartitionChangeRecord, RegisterBrokerRecord

__all__ = ["register_ahead", "register_broker", "register_unless_alive"]


def register_broker(
    request: BrokerRegistrationRequest,
    *,
    cluster_id: str,
    session_epoch: int | None,
    kraft_version: int,
    settings: ControllerSettings,
) -> Command[BrokerRegistrationResponse]:
    """Returns the command that registers the broker of `request`; a new process stays fenced until it has caught up.

    `session_epoch` is the broker epoch whose session is valid, as the heartbeat service knows it; None if there is
    none.

    The broker epoch is the offset of the first record written here, so it is unique, even if other records come before
    the registration: with a new process, the last one of this broker leaves all ISRs, and after an unclean shutdown all
    ELRs. A process that registers again keeps its epoch.

    The command raises ApiError: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION (another process has a valid
    session), INVALID_REGISTRATION (directories, listeners), BROKER_ID_NOT_REGISTERED (ZooKeeper), UNSUPPORTED_VERSION
    (a finalized feature that the broker does not support, or no metadata.version yet).
    """

    def command(state: ClusterState, moment: Moment) -> Decision[BrokerRegistrationResponse]:
        existing = state.brokers.get(request.broker_id)
        _check(state, request, cluster_id=cluster_id, session_epoch=session_epoch, kraft_version=kraft_version)

        again = existing is not None and existing.incarnation_id == request.incarnation_id
        epoch = existing.epoch if existing is not None and again else moment.next_offset
        was_clean = _was_clean(request, existing)
        cleaned = () if again else tuple(_cleaned(state, request.broker_id, settings, was_clean=was_clean))
        record = _record(state, request, epoch, existing if again else None)
        assert again or record.fenced, record  # I-66
        assert again or record.broker_epoch == moment.next_offset, (record, moment)  # I-44
        return Decision(BrokerRegistrationResponse(broker_epoch=epoch), (*cleaned, record), atomic=False)

    return command


def register_unless_alive(
    request: BrokerRegistrationRequest,
    *,
    cluster_id: str,
    kraft_version: int,
    settings: ControllerSettings,
    session_epoch: int | None = None,
) -> Command[BrokerRegistrationResponse]:
    """Returns a `register_broker` command that also refuses to replace an unfenced broker by another process.

    The error is DUPLICATE_BROKER_REGISTRATION, whether or not the heartbeat service knows a session of the broker.
    """

    def command(state: ClusterState, moment: Moment) -> Decision[BrokerRegistrationResponse]:
        whole = register_broker(
            request,
            cluster_id=cluster_id,
            session_epoch=_epoch_of_the_live(state, request.broker_id, session_epoch),
            kraft_version=kraft_version,
            settings=settings,
        )
        return whole(state, moment)

    return command


def register_ahead(
    state: ClusterState,
    request: BrokerRegistrationRequest,
    *,
    cluster_id: str,
    kraft_version: int,
    settings: ControllerSettings,
    session_epoch: int | None = None,
    limits: ChunkLimits = DEFAULT_LIMITS,
) -> Iterator[Command[None]]:
    """Yields commands for before `register_unless_alive`: the broker's last process leaves ISRs (and ELRs) in chunks.

    It yields none if few partitions change or the registration would be refused now, and stops once another process
    has registered. Request each command after the one before is decided, on the same `state`. They raise the ApiErrors
    of the final command. See `chunked_change`.
    """
    broker_id = request.broker_id
    last = state.brokers.get(broker_id)
    if last is not None and last.incarnation_id == request.incarnation_id:
        return
    was_clean = _was_clean(request, last)
    count = state.topics.isr_count(broker_id) + (0 if was_clean else state.topics.elr_count(broker_id))

    def check(now: ClusterState) -> None:
        alive = _epoch_of_the_live(now, broker_id, session_epoch)
        _check(now, request, cluster_id=cluster_id, session_epoch=alive, kraft_version=kraft_version)

    if count <= limits.changed_max or not _is_let_in(state, check):
        return
    epoch = epoch_of(state, broker_id)
    for keys in chunks_of(state, broker_id, (in_isr if was_clean else in_isr_or_elr)(broker_id), limits):

        def chunk(now: ClusterState, _: Moment, keys: Sequence[Key] = keys) -> Decision[None]:
            """Removes the broker's last process from these partitions' ISRs (and ELRs), if it is still registered."""
            if epoch_of(now, broker_id) != epoch:
                return Decision(None)
            check(now)
            among = tuple(present(now, keys))
            changes = tuple(_cleaned(now, broker_id, settings, among, was_clean=was_clean))
            assert len(changes) <= 2 * len(keys), (broker_id, len(changes), len(keys))  # once for the ISR, and the ELR
            return Decision(None, changes)

        yield chunk


def _is_let_in(state: ClusterState, check: Callable[[ClusterState], None]) -> bool:
    try:
        check(state)
    except ApiError:
        return False
    return True


def _epoch_of_the_live(state: ClusterState, broker_id: NodeId, session_epoch: int | None) -> int | None:
    """Returns the broker epoch that counts as alive: one with a valid session, or one that is not fenced in the log.

    Kafka's ClusterControlManager.registerBroker checks the session alone, which its controller keeps itself. Here the
    session may be unknown, while the heartbeat service is down or has just started: an unfenced broker may lead, so it
    is not replaced.
    """
    broker = state.brokers.get(broker_id)
    return session_epoch if broker is None or broker.fenced else broker.epoch


# Check.


def _check(
    state: ClusterState,
    request: BrokerRegistrationRequest,
    *,
    cluster_id: str,
    session_epoch: int | None,
    kraft_version: int,
) -> None:
    existing = state.brokers.get(request.broker_id)
    _check_identity(request, existing, cluster_id=cluster_id, session_epoch=session_epoch)
    _check_directories(state, request)
    _check_listeners(request)
    _check_features(state, request, kraft_version)


def _check_identity(
    request: BrokerRegistrationRequest, existing: Broker | None, *, cluster_id: str, session_epoch: int | None
) -> None:
    if request.cluster_id != cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"broker {request.broker_id} belongs to cluster {request.cluster_id!r}; this is {cluster_id!r}",
        )
    if request.broker_id < 0:
        raise ApiError(ErrorCode.INVALID_REGISTRATION, f"broker id {request.broker_id} is negative")
    if existing and existing.incarnation_id != request.incarnation_id and session_epoch == existing.epoch:
        raise ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"broker {request.broker_id} is already registered by another process, "
            f"{uuid_text(existing.incarnation_id)}, whose session of broker epoch {existing.epoch} is still valid",
        )
    if request.is_migrating_zk_broker:
        # This is Kafka's error code for it.
        raise ApiError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"broker {request.broker_id} runs on ZooKeeper, which is no longer supported",
        )


def _check_directories(state: ClusterState, request: BrokerRegistrationRequest) -> None:
    """Checks that no other broker has one of the directories; skipped below 3.7-IV2, which has no directory ids."""
    if state.features.record_level < DIRECTORIES:
        return
    seen: set[Uuid] = set()
    if not request.log_dirs:
        raise _invalid(request, "names no log directory")
    for directory in request.log_dirs:
        if reserved_uuid(directory):
            raise _invalid(request, f"names directory {uuid_text(directory)}; the first hundred ids are reserved")
        if directory in seen:
            raise _invalid(request, f"names directory {uuid_text(directory)} twice")
        owner = state.brokers.owner_of(directory)
        if owner not in (None, request.broker_id):
            raise _invalid(request, f"names directory {uuid_text(directory)}, which belongs to broker {owner}")
        seen.add(directory)


def _check_listeners(request: BrokerRegistrationRequest) -> None:
    names = [listener.name for listener in request.listeners]
    if not names:
        raise _invalid(request, "names no listener")
    if "" in names or len(set(names)) != len(names):
        raise _invalid(request, f"names the listeners {names}; each must have its own name")


def _check_features(state: ClusterState, request: BrokerRegistrationRequest, kraft_version: int) -> None:
    """Checks each feature's finalized level (0 if none) against the broker's range (0 to 0 if not named). KIP-584."""
    ranges = {
        feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in request.features
    }
    levels = {**dict.fromkeys(ranges, 0), **state.features.finalized(), KRAFT_VERSION: kraft_version}
    # Named features come first, so that the error for a broker without metadata.version is Kafka's.
    for name in sorted(levels, key=lambda name: name not in ranges):
        lowest, highest = ranges.get(name, (0, 0))
        level = levels[name]
        if name not in ranges and METADATA_VERSION not in ranges:
            raise _invalid(request, f"does not say which {METADATA_VERSION} it supports")
        if not lowest <= level <= highest:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"broker {request.broker_id} supports {name} from {lowest} to {highest}; this cluster is at {level}",
                {"feature": name, "level": str(level)},
            )
    if state.features.metadata_version is None:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"this cluster has no {METADATA_VERSION} yet")


# Records.


def _was_clean(request: BrokerRegistrationRequest, existing: Broker | None) -> bool:
    """Returns whether the registered process shut down cleanly, as the request says by its broker epoch. KIP-966."""
    return request.previous_broker_epoch == (None if existing is None else existing.epoch)


def _cleaned(
    state: ClusterState,
    broker_id: NodeId,
    settings: ControllerSettings,
    among: Sequence[TopicPartition] | None = None,
    *,
    was_clean: bool,
) -> Iterator[PartitionChangeRecord]:
    """Yields the partition changes: the fenced broker leaves all ISRs, and after an unclean shutdown all ELRs, too."""
    if was_clean and among is not None:
        among = [found for found in among if broker_id in found.partition.isr]
    return (leaving if was_clean else unclean_stop)(state, broker_id, settings, among)


def _record(
    state: ClusterState, request: BrokerRegistrationRequest, epoch: int, same: Broker | None
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=tuple(
            RegisterBrokerRecord.BrokerEndpoint(listener.name, listener.host, listener.port, listener.security_protocol)
            for listener in request.listeners
        ),
        features=tuple(
            RegisterBrokerRecord.BrokerFeature(
                feature.name, feature.min_supported_version, feature.max_supported_version
            )
            for feature in request.features
        ),
        rack=request.rack,
        fenced=True if same is None else same.fenced,
        in_controlled_shutdown=False if same is None else same.in_controlled_shutdown,
        log_dirs=request.log_dirs if state.features.record_level >= DIRECTORIES else (),
    )


def _invalid(request: BrokerRegistrationRequest, reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REGISTRATION, f"broker {request.broker_id} {reason}")
