"""How both targets are configured: by the names that they share."""

from __future__ import annotations

from typing import Final

from tests.interop.kafka.quorum import QUIET

RELEASE: Final = "4.3-IV0"
"""Where the script begins; it goes on to the newest level by itself."""
SESSION_TIMEOUT_MS: Final = 12_000

COMMON: Final[dict[str, object]] = {
    "num.partitions": 2,
    "default.replication.factor": 2,
    "min.insync.replicas": 1,
    "delegation.token.secret.key": "not-a-secret",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "broker.session.timeout.ms": SESSION_TIMEOUT_MS,
    **QUIET,
}

QUORUM: Final[dict[str, object]] = {"controller.quorum.fetch.timeout.ms": 30_000}
"""Nobody is to lose the leadership because this machine has other things to do: elections are not the subject here."""
