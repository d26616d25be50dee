"""Delegation tokens for tables: who asks, what they may, what time it is; and the records of tokens by number."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from typing import Any, Final

import msgspec

from quorate.controller.access.delegation_tokens import TokenSettings
from quorate.controller.access.rights import Allows, allows_all
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.metadata.state import ClusterState
from quorate.nouns import Principal, uuid_text
from quorate.records import DelegationTokenRecord
from tests.controller.clusters import Cluster, uuid

__all__ = [
    "ALICE",
    "ASKED_MS",
    "BOB",
    "CAROL",
    "EVE",
    "OFF",
    "ON",
    "asked_at",
    "before_tokens",
    "first_level",
    "hmac_of",
    "id_of",
    "may",
    "no_tokens",
    "one_renewed",
    "token",
    "two_tokens",
]

ALICE, BOB, CAROL, EVE = (Principal("User", name) for name in ("alice", "bob", "carol", "eve"))
OFF: Final = TokenSettings()
KEY: Final = "the secret key of a test"
ON: Final = TokenSettings(secret_key=KEY, max_lifetime_ms=1000, expiry_time_ms=300)
ASKED_MS: Final = 5000
"""When a token was asked for, and what the clock says unless said otherwise."""


def asked_at(now_ms: int, command: Command[Any]) -> Command[Any]:
    """The command, at this time."""

    def then(state: ClusterState, moment: Moment) -> Decision[Any]:
        return command(state, msgspec.structs.replace(moment, now_ms=now_ms))

    return then


def may(grants: Collection[str] | None) -> Allows:
    """An authorizer with these, each as `DESCRIBE_TOKENS USER User:alice`; with None there is no authorizer."""
    if grants is None:
        return allows_all

    def allows(operation: AclOperation, kind: ResourceType, name: str) -> bool:
        return f"{operation.name} {kind.name} {name}" in grants

    return allows


def id_of(number: int) -> str:
    """The token's id."""
    return uuid_text(uuid(number))


def hmac_of(number: int) -> bytes:
    """What opens it: HMAC-SHA-512 of its id under the key (KIP-48)."""
    return hmac.digest(KEY.encode(), id_of(number).encode(), "sha512")


def token(number: int, owner: Principal, *renewers: Principal, **changes: Any) -> DelegationTokenRecord:
    """A token as it is made: good for 300 ms, and with renewals for 1000 ms; its owner asked for it."""
    return DelegationTokenRecord(
        **{
            "owner": str(owner),
            "requester": str(owner),
            "renewers": tuple(map(str, renewers)),
            "issue_timestamp": ASKED_MS,
            "max_timestamp": ASKED_MS + 1000,
            "expiration_timestamp": ASKED_MS + 300,
            "token_id": id_of(number),
            **changes,
        }
    )


def no_tokens() -> Cluster:
    """No tokens; the level is 4.4-IV2."""
    return Cluster(33)


def two_tokens() -> Cluster:
    """Made at 5000, expire at 5300, end at 6000: 1 is Carol's, Alice asked for it, Bob may renew it; 2 is Eve's."""
    cluster = no_tokens()
    cluster.apply([token(1, CAROL, BOB, requester=str(ALICE)), token(2, EVE)])
    return cluster


def one_renewed() -> Cluster:
    """The same; token 1 expires at 5950."""
    cluster = two_tokens()
    cluster.apply([token(1, CAROL, BOB, requester=str(ALICE), expiration_timestamp=5950)])
    return cluster


def before_tokens() -> Cluster:
    """No tokens; the level is 3.6-IV1."""
    return Cluster(13)


def first_level() -> Cluster:
    """No tokens; the level is 3.6-IV2."""
    return Cluster(14)
