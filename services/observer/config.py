"""The configuration of an observer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.network.client_config import read_client_properties
from quorate.runtime.access.entry_guard import everyone_setting
from quorate.runtime.access.guard import GuardedSettings
from quorate.runtime.settings.config import setting
from quorate.runtime.settings.setting_types import (
    Endpoint,
    ListenerAddress,
    boolean,
    endpoint,
    integer,
    list_of,
    listener,
    milliseconds,
    optional,
    path,
    text,
)
from services.observer.database import database_url, is_durable

HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverConfig(GuardedSettings):
    """The settings of one observer."""

    node_id: int = setting("node.id", integer(0, 2**31 - 1), "Its id among the quorum's observers.")
    quorum: tuple[Endpoint, ...] = setting(
        "controller.quorum.bootstrap.servers", list_of(endpoint()), "Quorum nodes, for the log.", default=()
    )
    kafka_controllers: tuple[Endpoint, ...] = setting(
        "bootstrap.controllers",
        list_of(endpoint()),
        "All controllers of a Kafka cluster, to read its log over Kafka's own wire instead of from quorum nodes.",
        default=(),
    )
    command_config: Path | None = setting(
        "command.config",
        optional(path()),
        "The properties of a Kafka client, by which the controllers are connected to: a file as for Kafka's tools.",
        default=None,
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
        "Hand the committed log on to readers that ask here, secrets in it too: they need no quorum node then.",
        default=False,
    )
    database: str = setting(
        "observer.database.url", database_url(), "Where spans are kept.", default="sqlite://", secret=True
    )
    state_database: str | None = setting(
        "observer.state.database.url",
        optional(database_url()),
        "Where the state and its history are kept as tables: a file of SQLite, or PostgreSQL; empty for nowhere.",
        default=None,
        secret=True,
    )
    state_retention_ms: int = setting(
        "observer.state.history.retention.ms",
        milliseconds(-1, 2**63 - 1),
        "What has changed longer ago is dropped from the history of the state, if a database keeps it; -1 for never.",
        default=-1,
    )
    page: ListenerAddress | None = setting(
        "observer.page.listener",
        optional(listener()),
        "Where browsers are served the page, over HTTP, as NAME://host:port; empty for nowhere.",
        default=None,
    )
    connection_age_max_ms: int = setting(
        "connection.max.age.ms",
        milliseconds(0),
        "A connection is closed at this age, so that clients look the name up again, and find new copies; 0 for never.",
        default=0,
    )
    allow_everyone_if_no_acl_found: bool = everyone_setting()

    @property
    def client_properties(self) -> Mapping[str, str]:
        """The properties by which Kafka's controllers are connected to, from the file; empty without a file.

        Raises ValueError with file and property, or OSError.
        """
        return {} if self.command_config is None else read_client_properties(self.command_config)

    @property
    def every_listener(self) -> tuple[ListenerAddress, ...]:
        """The listeners of gRPC, and the page's, which has the same certificate."""
        return self.listeners if self.page is None else (*self.listeners, self.page)

    def problems(self) -> Iterator[str]:
        """Yields a message for each violated rule: about listeners, and about whose log is read."""
        yield from self.security_problems()
        if self.page is not None and self.page.endpoint in [each.endpoint for each in self.listeners]:
            yield f"observer.page.listener = {self.page}: gRPC is spoken there, by listeners; it must be another port"
        quorum, kafka = "controller.quorum.bootstrap.servers", "bootstrap.controllers"
        if bool(self.quorum) == bool(self.kafka_controllers):
            given = "both are given" if self.quorum else "neither is given"
            yield f"{quorum} and {kafka}: {given}; the log of one quorum is read, of our nodes or of Kafka controllers"
        if self.kafka_controllers and self.serves_log:
            yield f"observer.log.relay = true: must be false with {kafka}; fetches are handed on to quorum nodes alone"
        if self.command_config is not None and not self.kafka_controllers:
            yield f"command.config = {self.command_config}: is for {kafka}, which is not given"
        if self.state_database is not None and not is_durable(self.state_database):
            yield "observer.state.database.url: in memory nothing is kept; it must be a file, or a server"
        if 0 <= self.state_retention_ms < HOUR_MS:
            name = "observer.state.history.retention.ms"
            yield f"{name} = {self.state_retention_ms}: must be -1 or at least {HOUR_MS:,}, as pages of it are read"
        if self.state_database == self.database and self.database.startswith("sqlite"):
            yield "observer.state.database.url: must be another database than observer.database.url, of spans"
        try:
            _ = self.client_properties
        except ValueError as problem:
            yield f"command.config = {problem}"
        except OSError as problem:
            yield f"command.config = {self.command_config}: cannot be read: {problem.strerror}"
