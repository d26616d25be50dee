"""How a process speaks gRPC: by TLS 1.3, each side with a certificate, or in the clear where a setting says so.

The files are looked at every second. New ones that fit each other are taken by the server for its next connections, and
by clients for their next calls; connections that are open stay as they are. Others are refused, and the old ones stay.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias
from weakref import WeakSet

import grpc

from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.nouns import ANONYMOUS, Principal
from quorate.runtime import IS_TLS_1_3_ALONE
from quorate.runtime.connections.reloading_channel import Credentials, ReloadingChannel
from quorate.runtime.event_loop.clock import Clock, SystemClock
from quorate.runtime.logging.logs import logger
from quorate.runtime.settings.config import ConfigError
from quorate.tls.key_stores import Stores, read_stores
from quorate.tls.listener_tls import listener_tls
from quorate.tls.revoked import fingerprint, read_revoked
from quorate.tls.ssl_principals import DEFAULT_RULES, SslPrincipals, parse_rules
from quorate.tls.watched_files import LOOK_AGAIN_S, WatchedFiles

__all__ = ["KEEPALIVE", "PLAIN", "WITHOUT_PROXY", "Options", "Transport"]

log = logger(__name__)

PRINCIPALS_MAX: Final = 4_096
"""Of so many certificates the principal is kept: a call costs a look-up, not the reading of a certificate."""
CLOCK: Final = SystemClock()

SECURITY_TYPE: Final = "transport_security_type"
TLS: Final = b"ssl"
"""gRPC's key for the security of a call's connection, and its word for TLS."""

Options: TypeAlias = Sequence[tuple[str, str | int]]

WITHOUT_PROXY: Final[Options] = (
    # gRPC's core takes http_proxy, https_proxy and grpc_proxy of the environment for every address, 127.0.0.1, too.
    ("grpc.enable_http_proxy", 0),
    # GRPC_ADDRESS_HTTP_PROXY, which the first option leaves on, is for the addresses of this list.
    ("grpc.address_http_proxy_enabled_addresses", ""),
)
"""Of each channel to a process of the cluster: no proxy knows its addresses, and some platforms name one to all."""

KEEPALIVE: Final[Options] = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # A PING has a timeout of its own, 60 s, and while one is under way the keepalive sends no other: without this a
    # peer that stands still is found dead after 60 to 70 s, with it after 15 s.
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
)
"""Of each connection, at both of its ends: one that answers nothing is found dead, and calls go elsewhere."""


class Transport:
    """One process's certificates, for its server and for its channels; without files it speaks in the clear.

    The files are read at once; new ones are taken while `watch` runs.
    """

    def __init__(
        self,
        *,
        keystore: Path | None = None,
        truststore: Path | None = None,
        revoked: Path | None = None,
        requires_certificate: bool = True,
        principal_rules: str = DEFAULT_RULES,
        calls_in_the_clear: bool = False,
        clock: Clock = CLOCK,
    ) -> None:
        """With `calls_in_the_clear` the files are for the listeners alone, and this process calls others without TLS.

        Raises ConfigError for files that are not there, or do not fit each other.
        """
        assert (keystore is None) == (truststore is None), (keystore, truststore)
        assert keystore is None or IS_TLS_1_3_ALONE, "quorate.runtime is imported before gRPC"
        self._files = (keystore, truststore) if keystore is not None and truststore is not None else None
        self._calls_in_the_clear = calls_in_the_clear or keystore is None
        self._requires_certificate = requires_certificate
        self._principal = lru_cache(PRINCIPALS_MAX)(_principals(principal_rules))
        self._clock = clock
        self._revocations = revoked
        self._revoked: frozenset[str] = frozenset()
        self._stores: Stores | None = None
        self._credentials: Credentials | None = None
        self._listener: tuple[Stores, ssl.SSLContext] | None = None
        self._channels: WeakSet[ReloadingChannel] = WeakSet()
        self._watched: list[tuple[str, WatchedFiles, Callable[[], None]]] = []
        if self._files is not None:
            if revoked is not None:
                self._watched.append(("list of revoked certificates", WatchedFiles((revoked,)), self._take_revoked))
            self._watched.append(("certificate", WatchedFiles(self._files), self._take_files))
            try:
                self._take(read_stores(*self._files))
                self._revoked = self._read_revoked()
            except ValueError as problem:
                raise ConfigError([str(problem)]) from None

    @property
    def is_plain(self) -> bool:
        """Whether it speaks in the clear alone."""
        return self._files is None

    def is_own_protocol(self, context: Any) -> bool:
        """Whether a call has come by the security protocol (TLS or in the clear) in which this process calls others.

        If not, the addresses at which this process calls nodes are of no use to its caller.
        """
        if self.is_plain:
            return True
        is_by_tls = TLS in context.auth_context().get(SECURITY_TYPE, ())
        return is_by_tls != self._calls_in_the_clear

    @property
    def credentials(self) -> Credentials:
        """The credentials with which this process calls others by TLS; another object once new files have been taken.

        Must not be asked for in the clear.
        """
        assert self._credentials is not None, "in the clear there are none"
        return self._credentials

    def principal(self, context: Any) -> Principal:
        """Returns who makes the call of `context`, by its certificate; ANONYMOUS without one, or in the clear.

        Raises ApiError(SASL_AUTHENTICATION_FAILED) for a malformed certificate, or one that no rule is for.
        """
        if self.is_plain:
            return ANONYMOUS
        shown = context.auth_context()
        certificate = next(iter(shown.get("x509_pem_cert", ())), None)
        if certificate is None:
            return ANONYMOUS
        return self._principal(certificate, next(iter(shown.get("peer_spiffe_id", ())), b""))

    def check_not_revoked(self, context: Any) -> None:
        """Raises ApiError(SASL_AUTHENTICATION_FAILED) if the certificate of a call's sender is revoked by now.

        A caller that had connected before is found, too: the door asks for each message.
        """
        if not self._revoked:
            return
        certificate = next(iter(context.auth_context().get("x509_pem_cert", ())), None)
        if certificate is not None and fingerprint(certificate) in self._revoked:
            log.info("refused a revoked certificate", host=context.peer(), fingerprint=fingerprint(certificate))
            raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the certificate of this caller is revoked")

    def server_credentials(self) -> grpc.ServerCredentials:
        """Returns the credentials of a gRPC server: each connection begins with the files as last taken. TLS only."""
        first = given = self._server_configuration()

        def changed() -> grpc.ServerCertificateConfiguration | None:
            """Returns certificates newer than those given, else None; gRPC asks in a thread, at each connection."""
            nonlocal given
            if given[0] is self._stores:
                return None
            given = self._server_configuration()
            return given[1]

        required = self._requires_certificate
        return grpc.dynamic_ssl_server_credentials(first[1], changed, required)  # type: ignore[arg-type]  # None: no change

    def listener_context(self) -> ssl.SSLContext:
        """Returns the TLS context for the next connection at a listener that does not speak gRPC, such as HTTP's.

        The same object until new files are taken. Raises ValueError if they have changed again, and do not fit.
        """
        stores = self._stores
        assert self._files is not None, "in the clear there is no TLS"
        assert stores is not None, "the files have been read"
        if self._listener is None or self._listener[0] is not stores:
            keystore, truststore = self._files
            made = listener_tls(
                keystore=keystore,
                truststore=truststore,
                client_auth="required" if self._requires_certificate else "none",
                protocols=("TLSv1.3",),
            )
            self._listener = stores, made
        return self._listener[1]

    def open_channel(self, address: str, options: Options) -> grpc.aio.Channel:
        """Opens a channel: in the clear if this process calls so; by TLS the server needs a certificate for the host.

        By TLS it takes new certificates for its next calls while `watch` runs.
        """
        options = (*WITHOUT_PROXY, *KEEPALIVE, ("grpc.http2.max_pings_without_data", 0), *options)
        if self._calls_in_the_clear:
            return grpc.aio.insecure_channel(address, options=options)
        channel = ReloadingChannel(
            lambda: self.credentials, lambda each: grpc.aio.secure_channel(address, each.value, options=options)
        )
        self._channels.add(channel)
        return channel

    async def watch(self) -> None:
        """Calls `look` each second until cancelled, and closes channels with old credentials that have no more calls.

        In the clear it returns at once.
        """
        while not self.is_plain:
            await asyncio.sleep(LOOK_AGAIN_S)
            self.look()
            for channel in list(self._channels):
                await channel.close_retired()

    def look(self) -> None:
        """Reads the files that have changed: takes them, or keeps the old ones with a warning, once for each refusal.

        Also warns once of a certificate that has expired. Only for TLS.
        """
        for what, files, take in self._watched:
            refusal = files.look(take)
            if refusal is not None:
                log.warning(f"the new {what} is not taken, and the old one stays", reason=refusal)
        self._warn_of_expiry()

    def _take_files(self) -> None:
        """Takes the key store and the trust store. Raises ValueError if they do not fit each other."""
        assert self._files is not None
        stores = read_stores(*self._files)
        if stores != self._stores:
            self._take(stores)
            log.info("took a new certificate", **self.described)

    def _take_revoked(self) -> None:
        """Takes the list of revoked certificates. Raises ValueError."""
        revoked = self._read_revoked()
        if revoked != self._revoked:
            self._revoked = revoked
            log.info("took a new list of revoked certificates", count=len(revoked))

    def _read_revoked(self) -> frozenset[str]:
        """Raises ValueError."""
        return frozenset() if self._revocations is None else read_revoked(self._revocations)

    @property
    def described(self) -> dict[str, str]:
        """Subject and expiry (UTC) of the certificate in use, as fields for the log. Only for TLS."""
        assert self._stores is not None
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._stores.expires_at))
        return {"subject": self._stores.subject, "expires": until}

    def _take(self, stores: Stores) -> None:
        self._stores = stores
        # gRPC finds the key and the certificates in the same text.
        value = grpc.ssl_channel_credentials(stores.truststore, stores.keystore, stores.keystore)
        self._credentials = Credentials(value)
        self._is_expiry_told = False

    def _warn_of_expiry(self) -> None:
        assert self._stores is not None
        if not self._is_expiry_told and self._clock.wall_ms() >= self._stores.expires_at * 1000:
            self._is_expiry_told = True
            log.warning("the certificate has expired: no new connection comes about", **self.described)

    def _server_configuration(self) -> tuple[Stores, grpc.ServerCertificateConfiguration]:
        stores = self._stores
        assert stores is not None, "in the clear there are no credentials"
        pair = [(stores.keystore, stores.keystore)]
        return stores, grpc.ssl_server_certificate_configuration(pair, stores.truststore)


def _principals(rules: str) -> Callable[[bytes, bytes], Principal]:
    """Returns the function from a certificate as PEM, and its SPIFFE id, to the principal."""
    named = SslPrincipals(parse_rules(rules))

    def principal(certificate: bytes, spiffe_id: bytes) -> Principal:
        try:
            return named(ssl.PEM_cert_to_DER_cert(certificate.decode("ascii")), spiffe_id.decode("ascii"))
        except (ValueError, Corrupt) as problem:
            raise ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, str(problem)) from None

    return principal


PLAIN: Final = Transport()
"""In the clear."""
