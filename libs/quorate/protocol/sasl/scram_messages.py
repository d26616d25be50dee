"""The four messages of SCRAM, parsed by Kafka's patterns. RFC 5802 section 7."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.protocol.sasl.mechanism import SaslError

__all__ = ["ClientFinal", "ClientFirst", "ServerFinal", "ServerFirst", "from_saslname", "saslname"]

_SASLNAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_VALUE_SAFE: Final = r"[\x01-\x2b\x2d-\x3c\x3e-\x7f]+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_RESERVED: Final = rf"(?:m={_VALUE},)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"

_CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASLNAME}))?,{_RESERVED}n=(?P<saslname>{_SASLNAME}),"
    rf"r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS})"
)
_SERVER_FIRST: Final = re.compile(
    rf"{_RESERVED}r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproven>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(rf"(?:e=(?P<error>{_VALUE_SAFE})|v=(?P<signature>{_BASE64})){_EXTENSIONS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFirst:
    """The client's first message: its user name, escaped as by `saslname`, and nonce.

    Channel binding (`p=`, `y`) is refused by the pattern: Kafka's servers have none to offer.
    """

    saslname: str
    nonce: str
    authorization_id: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, data: bytes) -> ClientFirst:
        """Returns the message in `data`. Raises SaslError if its form is not that of RFC 5802 section 7."""
        found = _matched(_CLIENT_FIRST, data, "client first message")
        pairs = (pair.partition("=") for pair in found["extensions"].split(",")[1:])
        return cls(
            saslname=found["saslname"],
            nonce=found["nonce"],
            authorization_id=found["authzid"] or "",
            extensions={key: value for key, _, value in pairs},
        )

    @property
    def gs2_header(self) -> str:
        """The part that the final message has to repeat, and where channel binding would be named."""
        return f"n,a={self.authorization_id}," if self.authorization_id else "n,,"

    @property
    def bare(self) -> str:
        """The message without `gs2_header`, as it is signed."""
        extensions = "".join(f",{key}={value}" for key, value in self.extensions.items())
        return f"n={self.saslname},r={self.nonce}{extensions}"

    def __bytes__(self) -> bytes:
        return (self.gs2_header + self.bare).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFirst:
    """The server's first message: the client's nonce and its own as one, and how the password was salted."""

    nonce: str
    salt: bytes
    iterations: int
    text: str

    @classmethod
    def make(cls, *, nonce: str, salt: bytes, iterations: int) -> ServerFirst:
        text = f"r={nonce},s={_encoded(salt)},i={iterations}"
        return cls(nonce=nonce, salt=salt, iterations=iterations, text=text)

    @classmethod
    def parse(cls, data: bytes) -> ServerFirst:
        """Returns the message in `data`. Raises SaslError if its form is not that of RFC 5802 section 7."""
        found = _matched(_SERVER_FIRST, data, "server first message")
        return cls(
            nonce=found["nonce"],
            salt=_decoded(found["salt"]),
            iterations=int(found["iterations"]),
            text=found[0],
        )

    def __bytes__(self) -> bytes:
        return self.text.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFinal:
    """The client's final message: the proof that it has the password, over `unproven` and the messages before."""

    channel: bytes
    nonce: str
    unproven: str
    proof: bytes

    @classmethod
    def parse(cls, data: bytes) -> ClientFinal:
        """Returns the message in `data`. Raises SaslError if its form is not that of RFC 5802 section 7."""
        found = _matched(_CLIENT_FINAL, data, "client final message")
        return cls(
            channel=_decoded(found["channel"]),
            nonce=found["nonce"],
            unproven=found["unproven"],
            proof=_decoded(found["proof"]),
        )

    @staticmethod
    def unproven_text(first: ClientFirst, nonce: str) -> str:
        """Returns the message without its proof."""
        return f"c={_encoded(first.gs2_header.encode())},r={nonce}"

    def __bytes__(self) -> bytes:
        return f"{self.unproven},p={_encoded(self.proof)}".encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFinal:
    """The server's final message: its signature, or in `error` why there is none."""

    signature: bytes = b""
    error: str | None = None

    @classmethod
    def parse(cls, data: bytes) -> ServerFinal:
        """Returns the message in `data`. Raises SaslError if its form is not that of RFC 5802 section 7."""
        found = _matched(_SERVER_FINAL, data, "server final message")
        return cls(signature=_decoded(found["signature"] or ""), error=found["error"])

    def __bytes__(self) -> bytes:
        return f"v={_encoded(self.signature)}".encode()


def saslname(user: str) -> str:
    """Returns a user name with its commas and equal signs escaped.

    >>> saslname("a=b,c")
    'a=3Db=2Cc'
    """
    return user.replace("=", "=3D").replace(",", "=2C")


def from_saslname(text: str) -> str:
    """Returns the user name: `saslname` undone."""
    return text.replace("=2C", ",").replace("=3D", "=")


def _matched(pattern: re.Pattern[str], data: bytes, what: str) -> re.Match[str]:
    found = pattern.fullmatch(data.decode("utf-8", errors="replace"))
    if found is None:
        raise SaslError(f"{what} of {len(data)} bytes is not of the form that RFC 5802 section 7 gives it")
    return found


def _encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as problem:  # the pattern lets through what is no canonical base64
        raise SaslError(f"base64 of {len(text)} characters: {problem}") from None
