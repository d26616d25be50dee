"""What in the state is nobody's to see: passwords among configs, and what SCRAM credentials are made of."""

from __future__ import annotations

from typing import Final

import msgspec

from kraft import Message
from quorate.records import ConfigRecord, UserScramCredentialRecord

__all__ = ["REDACTED", "is_secret", "redacted"]

REDACTED: Final = "(redacted)"

_SECRET_ENDINGS: Final = (
    "passphrase",
    "password",
    "sasl.jaas.config",
    "secret",
    "secret.key",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.certificates",
)
"""How the names of Kafka's password-typed configs end."""


def is_secret(config: str) -> bool:
    """Is the value of this config a password? By its name, so that a config nobody knows is covered, too.

    >>> is_secret("listener.name.a.ssl.keystore.password"), is_secret("retention.ms")
    (True, False)
    """
    return config.endswith(_SECRET_ENDINGS)


def redacted(record: Message) -> Message:
    """`record` without what is secret in it: text is replaced, bytes are empty. Replaying it would be wrong."""
    match record:
        case ConfigRecord() if record.value is not None and is_secret(record.name):
            return msgspec.structs.replace(record, value=REDACTED)
        case UserScramCredentialRecord():
            return msgspec.structs.replace(record, salt=b"", stored_key=b"", server_key=b"")
        case _:
            return record
