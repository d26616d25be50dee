"""Kafka's own clients in one JVM, each with its own properties: what a cluster lets them do, and how it slows them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.interop.kafka.jvm import AnsweringJvm
from tests.interop.kafka.release import java

PROGRAM: Final = Path(__file__).with_name("Clients.java")


class Clients(AnsweringJvm):
    """One client after the other; `Clients.java` says what they can be asked for."""

    def __init__(self) -> None:
        super().__init__(java("Clients", level="off", source=PROGRAM))

    async def answer(self, what: str, client: Mapping[str, str], **fields: object) -> dict[str, Any]:
        """What comes of it: an `error` is the name of the exception that the client's user gets."""
        return await asyncio.to_thread(self.ask, {"do": what, "client": client, **fields})
