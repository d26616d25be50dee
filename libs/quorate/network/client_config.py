"""A Kafka client's properties (`--command-config`): how to reach a node, prove who we are, and check who it is."""

from __future__ import annotations

import difflib
import re
import secrets
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.network import jaas
from quorate.network.client import DEFAULT_SETTINGS, DEFAULT_TIMEOUTS, Connection, Timeouts, connect
from quorate.properties import parse_properties
from quorate.protocol.sasl.client import Begin
from quorate.protocol.sasl.plain import PLAIN, PlainClient
from quorate.protocol.sasl.scram import TOKEN_AUTH, ScramClient, scram_number
from quorate.protocol.security_protocols import SECURITY_PROTOCOLS
from quorate.protocol.settings import ClientSettings

__all__ = [
    "ClientConfig",
    "ClientLogin",
    "Endpoint",
    "check_read",
    "client_files",
    "is_unread",
    "parse_bootstrap",
    "parse_client_config",
    "parse_login",
    "read_client_properties",
]

_SECURITY: Final = ("security.", "sasl.", "ssl.")
_READ: Final = (
    "security.protocol",
    "sasl.jaas.config",
    "sasl.mechanism",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.type",
)
"""The properties that say how to log in and whom to trust; a client has others, which are not read here."""

CLIENT_ID_MAX_BYTES: Final = 32_767
"""A request's header has the client's id as a NULLABLE_STRING, with its length in 16 bits."""
_HOST_AND_PORT: Final = re.compile(r"\s*(?:[A-Za-z_]+://)?(\[[0-9a-fA-F:.]+\]|[^\s\[\]:/]+):([0-9]{1,5})\s*")

Endpoint = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The settings of a client for every connection."""

    settings: ClientSettings = DEFAULT_SETTINGS
    timeouts: Timeouts = DEFAULT_TIMEOUTS
    tls: ssl.SSLContext | None = None
    begin: Begin | None = None
    api_timeout_ms: int = 60_000
    """Kafka's `default.api.timeout.ms`: how long tries may go on that bring nothing."""

    async def connect(self, endpoint: Endpoint) -> Connection:
        """Connects as configured. Raises as `client.connect`."""
        host, port = endpoint
        return await connect(host, port, settings=self.settings, timeouts=self.timeouts, begin=self.begin, tls=self.tls)


def parse_bootstrap(text: str) -> list[Endpoint]:
    """Returns the endpoints of "host:port,host:port". Raises ValueError.

    >>> parse_bootstrap("one:9093, [::1]:9094")
    [('one', 9093), ('::1', 9094)]
    """
    found = []
    for each in text.split(","):
        match = _HOST_AND_PORT.fullmatch(each)
        if match is None or not 0 < int(match[2]) < 1 << 16:
            raise ValueError(f"{each.strip()!r} is not HOST:PORT with a port from 1 to 65535")
        found.append((match[1].strip("[]"), int(match[2])))
    return found


def parse_client_config(properties: Mapping[str, str]) -> ClientConfig:
    """Returns what these properties, by Kafka's names, say; it reads the key and trust stores that they name.

    Properties of other things are left alone, as Kafka does. A security property that is not read here is refused: it
    would have no effect, and nobody would notice. Raises ValueError with the property, also for a store that cannot be
    loaded.
    """
    check_read(properties)
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise ValueError(f"security.protocol is {protocol!r}; it is one of {', '.join(SECURITY_PROTOCOLS)}")
    _, with_tls, with_sasl = SECURITY_PROTOCOLS[protocol]
    return ClientConfig(
        settings=ClientSettings(client_id=_client_id(properties)),
        timeouts=Timeouts(
            connect_ms=_ms(properties, "socket.connection.setup.timeout.ms", DEFAULT_TIMEOUTS.connect_ms),
            request_ms=_ms(properties, "request.timeout.ms", DEFAULT_TIMEOUTS.request_ms),
        ),
        tls=_tls(properties) if with_tls else None,
        begin=_login(properties) if with_sasl else None,
        api_timeout_ms=_ms(properties, "default.api.timeout.ms", ClientConfig().api_timeout_ms),
    )


def client_files(properties: Mapping[str, str]) -> list[Path]:
    """Returns the files that these properties name as key store and trust store; none without TLS.

    `parse_client_config` must have accepted the properties.
    """
    protocol = SECURITY_PROTOCOLS[properties.get("security.protocol", "PLAINTEXT").upper()]
    names = ("ssl.keystore.location", "ssl.truststore.location") if protocol.with_tls else ()
    return [Path(properties[name]) for name in names if name in properties]


def is_unread(name: str, read: Sequence[str] = _READ) -> bool:
    """Returns whether a property is about security (`security.`, `sasl.`, `ssl.`), and not among those in `read`."""
    return name.startswith(_SECURITY) and name not in read


def check_read(properties: Iterable[str], read: Sequence[str] = _READ) -> None:
    """Raises ValueError for the first property that is unread: about security, and not in `read`."""
    for name in properties:
        if is_unread(name, read):
            near = difflib.get_close_matches(name, read, 1)
            raise ValueError(f"{name} is not read here{f'; did you mean {near[0]}?' if near else ''}")


def read_client_properties(
    file: Path, parse: Callable[[Mapping[str, str]], object] = parse_client_config
) -> dict[str, str]:
    """Returns all properties of a file (`--command-config`), after `parse` has checked them.

    Raises ValueError with the file and the property, or OSError if the file cannot be read.
    """
    if file.exists() and not file.is_file():
        raise ValueError(f"{file}: it is no file")
    try:
        properties = parse_properties(file.read_text("utf-8"))
        parse(properties)
    except ValueError as problem:
        raise ValueError(f"{file}: {problem}") from None
    return properties


def _client_id(properties: Mapping[str, str]) -> str:
    text = properties.get("client.id", "quorate")
    if (size := len(text.encode("utf-8"))) > CLIENT_ID_MAX_BYTES:
        raise ValueError(f"client.id has {size} bytes of UTF-8; a request has room for {CLIENT_ID_MAX_BYTES}")
    return text


def _ms(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name, str(default)).strip()
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 31):
        raise ValueError(f"{name} is {text!r}; it is a number of ms from 1 on")
    return int(text)


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    certificates = properties.get("ssl.truststore.certificates")
    if certificates is not None:
        # Text that is not ASCII may stand between them, as in a subject that `openssl s_client -showcerts` prints.
        certificates = certificates.encode("ascii", "replace").decode("ascii")
    with _loading(properties, "ssl.truststore"):
        context = ssl.create_default_context(cafile=_pem(properties, "ssl.truststore"), cadata=certificates)
    if properties.get("ssl.endpoint.identification.algorithm", "https").strip() == "":
        context.check_hostname = False
    if keystore := _pem(properties, "ssl.keystore"):
        with _loading(properties, "ssl.keystore"):
            # Without any password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(keystore, password=properties.get("ssl.key.password", ""))
    return context


@contextmanager
def _loading(properties: Mapping[str, str], store: str) -> Iterator[None]:
    """Turns the error of a store that cannot be loaded into a ValueError with its property."""
    try:
        yield
    except (OSError, ValueError) as problem:  # a ValueError for a NUL in a file's name, or a password too long for TLS
        file = properties.get(f"{store}.location")
        what = f"{store}.certificates" if file is None else f"{store}.location is {file!r}"
        raise ValueError(f"{what}; it cannot be loaded: {getattr(problem, 'strerror', None) or problem}") from None


def _pem(properties: Mapping[str, str], store: str) -> str | None:
    """Returns the file of a store. Raises ValueError for a type that only Java reads."""
    location = properties.get(f"{store}.location")
    kind = properties.get(f"{store}.type", "JKS").upper()
    if location is not None and kind != "PEM":
        raise ValueError(f"{store}.type is {kind}; only PEM is read here (keytool and openssl convert it)")
    return location


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClientLogin:
    """The user of a login; with a delegation token its id is `user`, and its HMAC in base64 `password`. KIP-48."""

    scram: int | None
    """The number of the SCRAM mechanism; None for PLAIN."""
    user: str
    password: str
    is_token: bool


def parse_login(properties: Mapping[str, str]) -> ClientLogin:
    """Returns who logs in by `sasl.mechanism` and `sasl.jaas.config`. Raises ValueError, which shows no secret."""
    mechanism = properties.get("sasl.mechanism", "GSSAPI")
    number = scram_number(mechanism)
    if mechanism != PLAIN and number is None:
        raise ValueError(f"sasl.mechanism is {mechanism!r}; it is one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512")
    options = _jaas(properties.get("sasl.jaas.config", ""))
    return ClientLogin(
        scram=number,
        user=options["username"],
        password=options["password"],
        is_token=number is not None and options.get(TOKEN_AUTH, "").lower() == "true",
    )


def _login(properties: Mapping[str, str]) -> Begin:
    login = parse_login(properties)
    number = login.scram
    if number is None:
        return lambda: PlainClient(login.user, login.password)
    return lambda: ScramClient(
        number, login.user, login.password, nonce=lambda: secrets.token_hex(16), is_token=login.is_token
    )


def _jaas(text: str) -> dict[str, str]:
    """Returns the options of `LoginModule required name="value" …;` by name.

    Raises ValueError. Its message has names only, as the values are secrets.
    """
    try:
        options = jaas.options(text) if text.strip() else {}
    except ValueError as problem:
        raise ValueError(f"sasl.jaas.config: {problem}") from None
    missing = [name for name in ("username", "password") if not options.get(name)]
    if missing:
        what = f"has no {' and no '.join(missing)}"
        raise ValueError(f'sasl.jaas.config {what}; it is like `…LoginModule required username="…" password="…";`')
    return options
