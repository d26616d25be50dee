"""The settings of what is above a broker: services of ours, or a quorum of Kafka's own controllers.

`controller.listener.names`, which each broker of Kafka has, says that the controllers are Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.listeners.logins import SCRAM_MECHANISMS
from quorate.listeners.settings import ListenerSettings
from quorate.protocol.sasl.plain import PLAIN
from quorate.protocol.security_protocols import SECURITY_PROTOCOLS
from quorate.runtime.settings.config import PerListener, listener_prefix, of_each_listener, setting
from quorate.runtime.settings.setting_types import (
    Endpoint,
    SettingType,
    choice,
    endpoint,
    list_of,
    listener_name,
    milliseconds,
    optional,
    path,
)
from services.broker.listener_config import BrokerListeners, BrokerListenerSettings

__all__ = ["ControlPlane", "ControllerListenerSettings"]

KAFKAS: Final = "controller.listener.names"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerListenerSettings(BrokerListenerSettings):
    """How this broker, as a client, reaches Kafka's controllers at one of their listeners."""

    plain_jaas: str = setting(
        "plain.sasl.jaas.config",
        SettingType("a text", str),
        "The user and the password by which this broker logs in at controllers with PLAIN.",
        default="",
        secret=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane(BrokerListeners):
    """The settings of the control plane, in the broker's Config as a base class."""

    quorum: tuple[Endpoint, ...] = setting(
        "controller.quorum.bootstrap.servers",
        list_of(endpoint()),
        f"Quorum nodes, for the metadata log; with {KAFKAS} Kafka's controllers, of which some are enough.",
    )
    controllers: tuple[Endpoint, ...] = setting(
        "controller.endpoints",
        list_of(endpoint(), low=0),
        "Controllers of ours, to register with; any will do.",
        default=(),
    )
    heartbeats: tuple[Endpoint, ...] = setting(
        "heartbeat.endpoint",
        list_of(endpoint(), low=0),
        "The heartbeat services of ours, of which one counts: each is tried in turn.",
        default=(),
    )
    gateways: tuple[Endpoint, ...] = setting(
        "gateway.endpoints",
        list_of(endpoint(), low=0),
        "Gateways: they pass on to controllers of ours what admin clients ask. Without one that is not served.",
        default=(),
    )
    gateway_client: Path | None = setting(
        "gateway.client.config",
        optional(path()),
        "A file of a Kafka client's properties: how this broker speaks to the gateways; in the clear without it.",
        default=None,
    )
    controller_listeners: tuple[str, ...] = setting(
        KAFKAS,
        list_of(listener_name(), low=0),
        "With it the controllers are Kafka's own, and reached as listener.security.protocol.map says of the first.",
        default=(),
    )
    controller_mechanism: str | None = setting(
        "sasl.mechanism.controller.protocol",
        optional(choice(PLAIN, *SCRAM_MECHANISMS)),
        "How this broker logs in at Kafka's controllers, by the jaas.config of that listener.",
        default=None,
    )
    quorum_timeout_ms: int = setting(
        "controller.quorum.request.timeout.ms",
        milliseconds(1),
        "How long Kafka's controllers may take for a part of the metadata log; then it is asked for anew.",
        default=2_000,
    )
    of_controllers: PerListener[ControllerListenerSettings] = of_each_listener(
        ControllerListenerSettings, named_by="controller_listeners"
    )

    @property
    def is_kafkas(self) -> bool:
        """Whether the controllers are Kafka's own."""
        return bool(self.controller_listeners)

    @property
    def controller_listener(self) -> str:
        """The listener at which Kafka's controllers are asked: the first of `controller.listener.names`."""
        return self.controller_listeners[0]

    def control_plane_problems(self) -> Iterator[str]:
        """Yields the violated rules of the settings that name this broker's controllers."""
        if self.is_kafkas:
            yield from self._problems_with_kafkas()
            return
        given = {"controller.endpoints": self.controllers, "heartbeat.endpoint": self.heartbeats}
        for name in [name for name, each in given.items() if not each]:
            yield f"{name}: is missing; without {KAFKAS} the controllers are services of ours"
        if self.controller_mechanism is not None:
            yield f"sasl.mechanism.controller.protocol = {self.controller_mechanism}: is for {KAFKAS}, which is missing"

    def _problems_with_kafkas(self) -> Iterator[str]:
        names = ",".join(self.controller_listeners)
        given = {
            "controller.endpoints": self.controllers,
            "heartbeat.endpoint": self.heartbeats,
            "gateway.endpoints": self.gateways,
            "gateway.client.config": self.gateway_client,
        }
        for name in [name for name, each in given.items() if each]:
            yield f"{name}: is for controllers of ours; with {KAFKAS} = {names} they are Kafka's"
        own = {each.name for each in self.listeners}
        for name in [name for name in self.controller_listeners if name in own]:
            yield f"{KAFKAS} = {name}: must not be in listeners; this process is a broker, and no controller"
        protocol = self.security_protocol(self.controller_listener)
        if protocol is None:
            known = ",".join(map(":".join, self.security_protocols)) or "''"
            what = f"listener.security.protocol.map = {known}: must have an entry for {self.controller_listener}"
            yield f"{what}, the listener of the controllers"
        else:
            yield from self._problems_of_login(self.controller_listener, protocol)

    def _problems_of_login(self, name: str, protocol: str) -> Iterator[str]:
        security, of_listener = SECURITY_PROTOCOLS[protocol], self.of_controllers[name]
        yield from ListenerSettings.ineffective(name, protocol, self.of_controllers.own[name])
        if security.with_tls and of_listener.truststore is None:
            yield f"ssl.truststore.location: is missing; the controllers' listener {name} speaks {protocol}"
        if not security.with_sasl:
            return
        if self.controller_mechanism is None:
            what = "sasl.mechanism.controller.protocol: is missing"
            yield f"{what}; the controllers' listener {name} speaks {protocol}"
        elif not of_listener.own_jaas(self.controller_mechanism):
            where = f"{listener_prefix(name)}{self.controller_mechanism.lower()}.sasl.jaas.config"
            yield f"{where}: is missing; by it this broker logs in at the controllers"
