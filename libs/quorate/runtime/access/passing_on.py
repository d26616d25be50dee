"""Requests that one program passes on to another in the first caller's name: the metadata that says whose it is.

A controller passes a call on to the active one, and a gateway what came over Kafka's own wire. Each adds the address
that it got the request from, so the receiver sees every hop, and can check that each may pass on requests at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from quorate.errors import ApiError, ErrorCode
from quorate.nouns import ANONYMOUS, Principal

__all__ = [
    "CLIENT_HOST",
    "CLIENT_ID",
    "CLIENT_IS_TOKEN",
    "CLIENT_PRINCIPAL",
    "FORWARDABLE",
    "FORWARDED",
    "FORWARDER_PRINCIPAL",
    "GATEWAY_PRINCIPAL",
    "HOP",
    "LISTENER",
    "LOGIN_REASON",
    "PASSED_ON",
    "Said",
    "client_id_text",
    "listener_of",
    "principal",
    "principal_text",
    "said_in",
]

PASSED_ON: Final = "kraft-passed-on"
"""Metadata key of a call that a gateway makes for a client of Kafka's own wire."""
FORWARDED: Final = "kraft-forwarded"
"""Metadata key of a call that a controller forwards: one that is not active refuses it, and forwards it no further."""
CLIENT_HOST: Final = "kraft-client-host"
"""Metadata key, once for each hop: the IP address from which the request came there, the original caller's first."""
CLIENT_PRINCIPAL: Final = "kraft-client-principal"
"""Metadata key: the principal of the original caller, percent-encoded; absent for User:ANONYMOUS."""
FORWARDER_PRINCIPAL: Final = "kraft-forwarder-principal"
"""Metadata key: the principal of the broker that sent an Envelope, as the gateway authenticated it; its address is
the second `CLIENT_HOST`. Percent-encoded; absent for User:ANONYMOUS."""
GATEWAY_PRINCIPAL: Final = "kraft-gateway-principal"
"""Metadata key of a call that a standby forwards for a gateway: the gateway's principal, by its certificate."""
CLIENT_IS_TOKEN: Final = "kraft-client-is-token"
"""Metadata key of a forwarded call whose caller has logged in with a delegation token."""
CLIENT_ID: Final = "client-id"
"""Metadata key of the caller's client id, as in Kafka's request header; passed on unchanged."""
HOP: Final = "hop"
"""Metadata key of a refusal: the address of the hop that may not pass on requests."""

LISTENER: Final = "kraft-listener"
"""Metadata key of a call that a gateway makes for a peer or an observer: the name of the gateway's listener."""

LOGIN_REASON: Final = "login-reason"
"""Metadata key of a refused login: the reason as the client gets it, in the error_message of SaslAuthenticate."""

FORWARDABLE: Final = frozenset(
    {
        "AddRaftVoter", "AllocateProducerIds", "AlterClientQuotas", "AlterConfigs", "AlterPartitionReassignments",
        "AlterUserScramCredentials", "CreateAcls", "CreateDelegationToken", "CreatePartitions", "CreateTopics",
        "DeleteAcls", "DeleteTopics", "DescribeQuorum", "ElectLeaders", "ExpireDelegationToken",
        "IncrementalAlterConfigs", "ListPartitionReassignments", "RemoveRaftVoter", "RenewDelegationToken",
        "UnregisterBroker", "UnregisterController", "UpdateFeatures",
    }
)  # fmt: skip
"""The APIs that a broker may pass on for its clients: Kafka's `ApiKeys.forwardable` (KIP-590)."""

CLIENT_ID_BYTES_MAX: Final = 1_000
PRINCIPAL_BYTES_MAX: Final = 1_500
"""Most bytes of a client id and of a principal as metadata: a call may have 8 KiB of it, with three principals."""

CALLERS_CACHED: Final = 1_024
"""All calls of one caller say the same of it: what the metadata of so many callers says is cached."""
_PRINCIPALS: Final = frozenset({CLIENT_PRINCIPAL, FORWARDER_PRINCIPAL, GATEWAY_PRINCIPAL})
_SAID: Final = _PRINCIPALS | {CLIENT_HOST, CLIENT_ID, CLIENT_IS_TOKEN, FORWARDED, PASSED_ON}

Metadata = Iterable[tuple[str, str | bytes]]


class Said(NamedTuple):
    """The words of a call's metadata about its caller, and about those that passed it on. Nobody has verified them."""

    is_forwarded: bool = False
    """Whether another controller forwards the call."""
    is_by_gateway: bool = False
    """Whether a gateway makes it for somebody else, and says for whom."""
    client_id: str = ""
    hosts: tuple[str, ...] = ()
    """The addresses from which the request came, the original caller's first."""
    is_token: bool = False
    principals: tuple[tuple[str, str], ...] = ()
    """The principals that are named, each by its key; percent-encoded."""

    def principal(self, key: str = CLIENT_PRINCIPAL) -> Principal:
        """Returns the principal in the metadata for `key`, by default the original caller's; ANONYMOUS without one.

        Raises ApiError(PRINCIPAL_DESERIALIZATION_FAILURE) for a malformed one.
        """
        return principal(self.principals, key) if self.principals else ANONYMOUS


def said_in(metadata: Metadata | None) -> Said:
    """Returns what a call's metadata says of its caller. Passwords and the like are neither looked at nor kept."""
    return _said(tuple([pair for pair in metadata or () if pair[0] in _SAID]))


@lru_cache(CALLERS_CACHED)
def _said(metadata: tuple[tuple[str, str | bytes], ...]) -> Said:
    keys = {key for key, _ in metadata}
    return Said(
        is_forwarded=FORWARDED in keys,
        is_by_gateway={PASSED_ON, CLIENT_HOST} <= keys,
        client_id=next(iter(_values(metadata, CLIENT_ID)), ""),
        hosts=tuple(_values(metadata, CLIENT_HOST)),
        is_token=CLIENT_IS_TOKEN in keys,
        principals=tuple([(key, str(value)) for key, value in metadata if key in _PRINCIPALS]),
    )


def _values(metadata: Metadata, key: str) -> list[str]:
    """Returns the values of a key as text, in their order."""
    return [str(value) for name, value in metadata if name == key]


def listener_of(metadata: Metadata) -> str | None:
    """Returns the gateway's listener that a request came through, by its metadata; None if it came by gRPC."""
    return next((str(value) for key, value in metadata if key == LISTENER), None)


def principal_text(caller: Principal) -> str:
    """Returns a principal as the value of `CLIENT_PRINCIPAL`: metadata takes printable ASCII only.

    Raises ApiError(PRINCIPAL_DESERIALIZATION_FAILURE) for one that is too long: a part of it would be somebody else.
    """
    text = quote(str(caller), safe=":")
    if len(text) > PRINCIPAL_BYTES_MAX:
        why = f"the principal {text[:40]}… has {len(text)} bytes, percent-encoded; at most {PRINCIPAL_BYTES_MAX} go on"
        raise ApiError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, why)
    return text


def principal(metadata: Metadata, key: str = CLIENT_PRINCIPAL) -> Principal:
    """Returns the principal that metadata names by `key`; ANONYMOUS if none is named.

    Raises ApiError(PRINCIPAL_DESERIALIZATION_FAILURE) for a malformed one.
    """
    named = _values(metadata, key)
    if not named:
        return ANONYMOUS
    text = unquote(named[0])
    kind, colon, name = text.partition(":")
    if not (kind and colon):
        why = f"{key} is {text!r}; a principal is of the form type:name"
        raise ApiError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, why)
    return Principal(kind, name)


def client_id_text(client_id: str) -> str:
    """Returns a client id as metadata takes it: letters beyond ASCII percent-encoded; its first 1,000 bytes.

    >>> client_id_text("tôol")
    't%C3%B4ol'
    """
    if len(client_id) <= CLIENT_ID_BYTES_MAX and client_id.isascii() and client_id.isprintable():
        return client_id  # as most are
    text = ""
    for each in client_id[:CLIENT_ID_BYTES_MAX]:
        longer = text + (each if " " <= each <= "~" else quote(each))
        if len(longer) > CLIENT_ID_BYTES_MAX:
            break
        text = longer
    return text
