"""Engines of controllers, without a service around them: standing by or active; and the logins at one of them."""

from __future__ import annotations

from kraft import Message
from quorate.controller.access.delegation_tokens import TokenSettings
from quorate.controller.engine.decision import Decision
from quorate.controller.engine.engine import Engine
from quorate.listeners.scram_logins import ScramLogins
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST, METADATA_VERSION
from quorate.records import DelegationTokenRecord, FeatureLevelRecord
from services.controller.logins import logins_of

NOW_MS = 5_000
TOKENS = TokenSettings(secret_key="of the cluster")
TOKEN = DelegationTokenRecord(
    owner="User:ow:ner", requester="User:x", token_id="t1", expiration_timestamp=6_000, max_timestamp=9_000
)


def standing_by(*records: Message) -> Engine:
    """A controller that has replayed these, and knows that they are all."""
    engine = Engine(ClusterState())
    begun = (FeatureLevelRecord(METADATA_VERSION, LATEST), *records)
    engine.replay(begun, base_offset=0, end_offset=len(begun))
    engine.is_loaded = True
    return engine


def active(*records: Message) -> Engine:
    """A controller that is active after these."""
    engine = standing_by(*records)
    engine.claim(1, engine.next_offset)
    return engine


def write(engine: Engine, *records: Message) -> None:
    """Decided, applied, on its way."""
    engine.write("test", lambda _state, _moment: Decision(None, records), now_ms=0)


def commit(engine: Engine, offset: int | None = None) -> None:
    """A majority has all below `offset`."""
    end = engine.next_offset if offset is None else offset
    engine.note_appended(end)
    engine.commit(end)


def logins(engine: Engine, tokens: TokenSettings = TOKENS, now_ms: int = NOW_MS) -> ScramLogins:
    return logins_of(engine, tokens, lambda: now_ms)
