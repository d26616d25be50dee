"""How clients log in at a listener by SASL: PLAIN by the process's own configuration, SCRAM as its caller says."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import Final

from quorate.network.jaas import options
from quorate.protocol.sasl.mechanism import RemoteMechanism, ServerMechanism
from quorate.protocol.sasl.plain import PlainServer
from quorate.protocol.sasl.server import Mechanisms

__all__ = ["PLAIN_USERS", "SCRAM_MECHANISMS", "BeginScram", "mechanisms_of", "plain_users"]

SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
PLAIN_USERS: Final = "user_"
"""The beginning of a user's option, in the configuration of Kafka's PlainLoginModule."""

BeginScram = Callable[[str], ServerMechanism | RemoteMechanism]
"""Begins an exchange with the mechanism of this name."""


def mechanisms_of(names: tuple[str, ...], users: Mapping[str, str], begin_scram: BeginScram) -> Mechanisms:
    """Returns for each mechanism in `names` the function that begins a login by it, for one connection.

    `users` are those of PLAIN, with their passwords; SCRAM is begun by `begin_scram`, with the mechanism's name.
    """

    def verify(user: str, password: str) -> bool:
        expected = users.get(user)
        return expected is not None and hmac.compare_digest(expected.encode(), password.encode())

    def begin(name: str) -> Callable[[], ServerMechanism | RemoteMechanism]:
        return (lambda: begin_scram(name)) if name in SCRAM_MECHANISMS else lambda: PlainServer(verify)

    return {name: begin(name) for name in names}


def plain_users(jaas: str) -> dict[str, str]:
    """Returns the passwords by user of `PlainLoginModule required user_alice="…" …;`. Raises ValueError."""
    found = options(jaas)
    return {
        name.removeprefix(PLAIN_USERS): password for name, password in found.items() if name.startswith(PLAIN_USERS)
    }
