"""The configuration of an observer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quorate.runtime.config import setting
from quorate.runtime.entry_guard import EVERYONE_HELP
from quorate.runtime.guard import GuardedSettings
from quorate.runtime.setting_types import (
    Endpoint,
    ListenerAddress,
    boolean,
    endpoint,
    integer,
    list_of,
    listener,
    milliseconds,
    optional,
    text,
)
from services.observer.database import database_url


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverConfig(GuardedSettings):
    """The settings of one observer."""

    node_id: int = setting("node.id", integer(0, 2**31 - 1), "Its id among the quorum's observers.")
    listeners: ListenerAddress = setting(
        "listeners", listener(), "Where it is reached, by readers and by span exporters."
    )
    quorum: tuple[Endpoint, ...] = setting(
        "controller.quorum.bootstrap.servers", list_of(endpoint()), "Quorum nodes, for the log."
    )
    cluster_id: str | None = setting(
        "cluster.id",
        optional(text()),
        "Only this cluster's log is read; without it that of the node which answers first after a start.",
        default=None,
    )
    from_any: bool = setting(
        "observer.fetch.from.any",
        boolean(),
        "Read the log from a follower if one answers, and only report to the leader; false: from the leader alone.",
        default=True,
    )
    serves_log: bool = setting(
        "observer.log.relay",
        boolean(),
        "Hand the committed log on to whoever asks here, secrets in it too: readers need to reach no quorum node then.",
        default=False,
    )
    database: str = setting(
        "observer.database.url", database_url(), "Where spans are kept.", default="sqlite://", secret=True
    )
    connection_age_max_ms: int = setting(
        "connection.max.age.ms",
        milliseconds(0),
        "A connection is closed at this age, so that clients look the name up again, and find new copies; 0 for never.",
        default=0,
    )
    is_open_without_entries: bool = setting("allow.everyone.if.no.acl.found", boolean(), EVERYONE_HELP, default=False)

    def problems(self) -> Iterator[str]:
        """Yields the violated rules between settings: those of the listener."""
        return self.security_problems(self.listeners.name)
