"""The RPCs that each process of the cluster calls, and so may call: by its certificate, whatever super.users and the
log say.

A quorum node cannot look entries up in the log that it is asked for, and a super user may do everything everywhere. So
`principal.process.mapping.rules` says which process a principal is, and the table here what such a process calls. It is
held against the code of the services (`tests/services/across/test_process_rights.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from quorate.nouns import Principal
from quorate.runtime.settings.config import setting
from quorate.runtime.settings.setting_types import SettingType, optional
from quorate.tls.ssl_principals import parse_rules

__all__ = [
    "CALLS",
    "CONTROLLER",
    "OBSERVER",
    "PROCESS_RULES",
    "ProcessRights",
    "process_rights_of",
    "process_rules_setting",
]

PROCESS_RULES: Final = "principal.process.mapping.rules"

QUORUM: Final = "kraft.service.Quorum"
RAFT_CLIENT: Final = "kraft.service.RaftClient"
CONTROLLER: Final = "kraft.service.Controller"
HEARTBEAT: Final = "kraft.service.Heartbeat"
PLACER: Final = "kraft.service.Placer"
OBSERVER: Final = "kraft.service.Observer"
TRACES: Final = "opentelemetry.proto.collector.trace.v1.TraceService"

_SPANS: Final = {TRACES: ("Export",)}
_LOG: Final = ("FindQuorum", "Fetch", "FetchStream", "FetchSnapshot", "RelayFetchStream", "RelayFetchSnapshot")
"""The RPCs of a process that reads the log (`log_reader`), and reports how far it has read."""

CALLS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "quorum": {
        QUORUM: (
            "Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "FetchStream", "FetchSnapshot", "ApiVersions", "AddRaftVoter",
            "RemoveRaftVoter", "UpdateRaftVoter", "ControllerPresence", "FindQuorum", "SetTargetVoters",
        ),
        **_SPANS,
    },
    "controller": {
        QUORUM: (
            "FindQuorum", "DescribeQuorum", "AddRaftVoter", "RemoveRaftVoter", "AlterQuorum", "TransferLeadership",
        ),
        RAFT_CLIENT: (
            "Append", "Listen", "CreateSnapshot", "ControllerHeartbeat", "ConfirmLeadership", "UpgradeKRaftVersion",
            "RegisterWithKafka",
        ),
        CONTROLLER: ("ControllerRegistration",),
        HEARTBEAT: ("DescribeSessions",),
        PLACER: ("Place", "PlaceStream"),
        **_SPANS,
    },
    "gateway": {
        QUORUM: (
            *("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "FetchSnapshot", "UpdateRaftVoter"),
            *("FindQuorum", "RelayFetchStream", "RelayFetchSnapshot", "ReportReaders"),
        ),
        CONTROLLER: ("ApiVersions", "Authenticate"),
        HEARTBEAT: ("BrokerHeartbeat", "KeepAlive"),
        **_SPANS,
    },
    "heartbeat": {
        QUORUM: _LOG,
        CONTROLLER: ("ChangeBrokerState", "ClaimSessions"),
        **_SPANS,
    },
    "placer": {**_SPANS},
    "observer": {
        QUORUM: (*_LOG, "DescribeQuorum"),
        **_SPANS,
    },
    "broker": {
        QUORUM: _LOG,
        CONTROLLER: ("BrokerRegistration", "AlterPartition", "AssignReplicasToDirs", "AllocateProducerIds"),
        HEARTBEAT: ("BrokerHeartbeat", "BrokerHeartbeatStream"),
        **_SPANS,
    },
    "pipeline": {QUORUM: ("FindQuorum", "RelayFetchStream", "RelayFetchSnapshot")},
    "collector": {**_SPANS},
    "reader": {
        OBSERVER: (
            "DescribeTopicPartitions", "DescribeCluster", "GetTrace", "ListTraces", "Query", "ListChanges",
            "DiffImages", "WatchImage", "GetImage", "Examine", "ExamineQuorum",
        ),
    },
}  # fmt: skip
"""By process, by service: the RPCs that it calls in its own name.

A controller and a gateway besides pass the calls of others on, in those names (`passing_on`): these are judged by what
the first caller may. "broker" is one that calls by gRPC, as ours do, and sends Envelopes to gateways; Kafka's come
through a gateway, and take ACLs.
"""

PASS_ON: Final = frozenset({"controller", "gateway"})
"""The processes that pass the calls of others on."""
ENVELOPES: Final = "broker"
"""The process that passes on what its clients ask, in an Envelope to a gateway (KIP-590)."""


class ProcessRights:
    """Which processes of the cluster a principal is, by `principal.process.mapping.rules`, and so what it may call.

    >>> rights = ProcessRights(r"RULE:^quorum-[0-9]+$/quorum+controller/,RULE:^(heartbeat)$/$1/")
    >>> node, alice = Principal("User", "quorum-1"), Principal("User", "alice")
    >>> [rights.may_call(who, "kraft.service.Quorum/Vote") for who in (node, alice)]
    [True, False]
    """

    def __init__(self, rules: str) -> None:
        """Raises ValueError for a text that is not rules, or names a process that is not in `CALLS`."""
        self._rules = parse_rules(rules)
        for rule in self._rules:
            if rule.pattern is None:
                raise ValueError("DEFAULT names no process")
            unknown = set(rule.replacement.split("+")) - CALLS.keys()
            if unknown and "$" not in rule.replacement:
                raise ValueError(f"{rule.replacement!r} is not of {', '.join(CALLS)}, with + between several")
        self.of = lru_cache(4_096)(self._of)

    def may_call(self, principal: Principal, method: str) -> bool:
        """Whether it is a process that calls the method (`pkg.Service/Method`) in its own name, by `CALLS`."""
        service, _, name = method.rpartition("/")
        return any(name in CALLS[process].get(service, ()) for process in self.of(principal))

    def may_pass_on(self, principal: Principal) -> bool:
        """Whether the principal is a controller or a gateway, which pass on the calls of others in their names."""
        return not PASS_ON.isdisjoint(self.of(principal))

    def may_send_envelopes(self, principal: Principal) -> bool:
        """Whether the principal is a broker: a gateway passes on what its clients ask, in an Envelope (KIP-590)."""
        return ENVELOPES in self.of(principal)

    def _of(self, principal: Principal) -> frozenset[str]:
        found = next((each for rule in self._rules if (each := rule.apply(principal.name)) is not None), "")
        return frozenset(found.split("+")) & CALLS.keys()


def process_rules_setting() -> str | None:
    """Declares `principal.process.mapping.rules` as a field of a service's Config: a checked text, None by default."""
    return setting(
        PROCESS_RULES,
        optional(SettingType("RULE:pattern/processes/[LU], with commas between them, as in KIP-371", _parsed)),
        "From a caller's principal to the process that it is: it may call what that one calls, without being a super "
        "user. Empty: none.",
        default=None,
    )


def process_rights_of(rules: str | None) -> ProcessRights | None:
    """Returns the parsed text of `principal.process.mapping.rules`; None if it is not set. Raises ValueError."""
    return None if rules is None else ProcessRights(rules)


def _parsed(value: str) -> str:
    ProcessRights(value)
    return value
