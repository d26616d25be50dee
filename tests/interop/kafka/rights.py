"""Who may read and write at guarded brokers: users, their ACLs, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from deploy.local.ports import HOST
from tests.interop.kafka.guarded import AT

RECORDS: Final = 3
"""In each topic of `AT`."""
ALL: Final = RECORDS * len(AT)
NO_TOPIC, NO_GROUP = "TopicAuthorizationException", "GroupAuthorizationException"
NO_ID: Final = "TransactionalIdAuthorizationException"


class Entry(NamedTuple):
    """An ACL of one user, as Drive.java takes it."""

    operation: str
    type: str
    name: str
    pattern: str = "LITERAL"
    permission: str = "ALLOW"
    host: str = "*"

    def of(self, principal: str) -> dict[str, str]:
        return {**self._asdict(), "principal": principal}


TOPICS: Final = Entry("READ", "TOPIC", "at-", "PREFIXED")
GROUP: Final = Entry("READ", "GROUP", "readers")
EACH_TOPIC: Final = tuple(TOPICS._replace(name=topic, pattern="LITERAL") for topic in AT)
READERS: Final[Mapping[str, tuple[tuple[Entry, ...], int | str]]] = {
    "no-group": ((TOPICS,), NO_GROUP),
    "no-topic": ((GROUP,), NO_TOPIC),
    "describe-only": ((TOPICS._replace(operation="DESCRIBE"), GROUP), NO_TOPIC),
    "describe-group-only": ((TOPICS, GROUP._replace(operation="DESCRIBE")), NO_GROUP),
    "prefixed": ((TOPICS, GROUP), ALL),
    "literal": ((*EACH_TOPIC, GROUP), ALL),
    "one-of-two": ((EACH_TOPIC[0], GROUP), NO_TOPIC),
    "prefix-as-literal": ((TOPICS._replace(pattern="LITERAL"), GROUP), NO_TOPIC),
    "wildcard": ((TOPICS._replace(name="*", pattern="LITERAL"), GROUP._replace(name="*")), ALL),
    "prefixed-group": ((TOPICS, GROUP._replace(name="read", pattern="PREFIXED")), ALL),
    "all-operations": ((TOPICS._replace(operation="ALL"), GROUP._replace(operation="ALL")), ALL),
    "other-host": ((TOPICS._replace(host="127.0.0.2"), GROUP), NO_TOPIC),
    "this-host": ((TOPICS._replace(host=HOST), GROUP), ALL),
    "topic-denied": ((TOPICS, GROUP, EACH_TOPIC[1]._replace(permission="DENY")), NO_TOPIC),
    "prefix-denied": ((*EACH_TOPIC, GROUP, TOPICS._replace(permission="DENY")), NO_TOPIC),
    "group-denied": ((TOPICS, GROUP, GROUP._replace(name="read", pattern="PREFIXED", permission="DENY")), NO_GROUP),
    "denied-elsewhere": ((TOPICS, GROUP, GROUP._replace(host="127.0.0.2", permission="DENY")), ALL),
}  # fmt: skip
"""By the name of a user: its ACLs, and how much it reads or how it is refused."""
BY_NEW_PROTOCOL: Final = ("no-group", "no-topic", "describe-group-only", "prefixed", "group-denied")
"""Those in whom the requests of KIP-848 differ from those before; what an ACL lets be is one code for both."""

PAID: Final = "paid"
WRITE: Final = Entry("WRITE", "TOPIC", PAID)
OF_ID: Final = Entry("WRITE", "TRANSACTIONAL_ID", "payer-", "PREFIXED")
WRITERS: Final[Mapping[str, tuple[tuple[Entry, ...], int | str]]] = {
    "both": ((WRITE, OF_ID), RECORDS),
    "no-id": ((WRITE,), NO_ID),
    "no-topic-to-write": ((OF_ID,), NO_TOPIC),
    "id-denied": ((WRITE, OF_ID, OF_ID._replace(name="payer-id-denied", pattern="LITERAL", permission="DENY")), NO_ID),
}
"""The same for producers with a transactional id."""
