"""What a gateway is sent: requests of its APIs in any version, alone and in envelopes; damaged, cut off, ill-framed.

An input is the bytes of one connection. It is drawn from a `Random` alone, as those of the RPCs are.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from kraft import Message
from kraft.api.envelope import EnvelopeRequest
from kraft.protocol.default_principal_data import DefaultPrincipalData
from quorate.errors import ApiError, Corrupt
from quorate.protocol.apis import API_VERSIONS, ApiMessageType, all_apis
from quorate.protocol.frames import frame
from quorate.protocol.messages import encode_request
from quorate.wire.codec import encode
from quorate.wire.fitting import fitted
from quorate.wire.protobuf import to_struct
from services.gateway.apis import ENVELOPE, FORWARDABLE, ROUTES, Backend
from tests.fuzz.inputs import Inputs, Words
from tests.fuzz.rpcs import Rpc, rpcs_of

PROGRAMS: Final = {Backend.QUORUM: "quorum", Backend.CONTROLLER: "controller", Backend.HEARTBEAT: "heartbeat"}
ENVELOPES: Final = "envelopes"
BYTES: Final = "bytes"
TARGETS: Final = (*PROGRAMS.values(), ENVELOPES, BYTES)
"""Requests by the service that answers them, requests in envelopes, and what is no request."""
SIZES: Final = (-(2**31), -1, 0, 1, 2, 3, 4, 5, 13, 4 << 20, (4 << 20) + 1, 2**31 - 1)
KEYS: Final = (-1, 0, 3, 17, 18, 36, 58, 92, 999, 2**15 - 1)
VERSIONS: Final = (-(2**15), -1, 0, 1, 4, 99, 2**15 - 1)
TRIES_MAX: Final = 20
MANY: Final = 500
"""Requests in one go."""


class Asked(NamedTuple):
    """One request; `inside` is the one in an envelope, if it is whole."""

    api: ApiMessageType
    version: int
    inside: Asked | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The bytes of one connection, and each request in them if all are well-formed, else None."""

    data: bytes
    requests: tuple[Asked, ...] | None = None


class WireInputs:
    """Draws inputs for one of the targets."""

    def __init__(self, target: str, words: Words, random: Random) -> None:
        self._random = random
        self._words = words
        self._is_bytes = target == BYTES
        self._in_envelopes = target == ENVELOPES
        routes = {key: _rpc(key, backend) for key, backend in ROUTES.items()}
        self._rpcs = {
            key: rpc
            for key, rpc in routes.items()
            if (key in FORWARDABLE if self._in_envelopes else self._is_bytes or PROGRAMS[ROUTES[key]] == target)
        }

    def draw(self) -> Sent:
        """The bytes of one connection."""
        if self._is_bytes:
            return Sent(data=self._ill_framed())
        count = self._random.choice((1, 1, 1, 2, 4))
        drawn = [self._request(number) for number in range(count)]
        data = b"".join(each for each, _ in drawn)
        if self._random.random() < 0.25:
            return Sent(data=self._damaged(data))
        return Sent(data=data, requests=tuple(asked for _, asked in drawn))

    def _request(self, number: int) -> tuple[bytes, Asked]:
        api, message, version = self._message()
        asked = encode_request(api, message, version=version, correlation_id=number, client_id=self._client_id())
        if not self._in_envelopes:
            return frame(asked), Asked(api, version)
        inside = Asked(api, version)
        api = all_apis()[ENVELOPE]
        principal = DefaultPrincipalData(type="User", name=self._random.choice(("ANONYMOUS", "alice", "")))
        is_whole = self._random.random() < 0.8
        packed = EnvelopeRequest(
            asked if is_whole else self._damaged(asked),
            self._random.choice((b"\0\0" + encode(principal, 0), b"\0\0" + encode(principal, 0), b"", b"\0\7", None)),
            self._random.choice((bytes(4), bytes(4), bytes(16), bytes(3), b"")),
        )
        data = frame(encode_request(api, packed, version=0, correlation_id=number, client_id=None))
        return data, Asked(api, 0, inside if is_whole else None)

    def _message(self) -> tuple[ApiMessageType, Message, int]:
        """A request of one of the APIs, as far as Kafka's form has a place for it."""
        for _ in range(TRIES_MAX):
            key = self._random.choice(sorted(self._rpcs))
            api = all_apis()[key]
            version = self._random.choice(api.versions)
            try:
                message = fitted(to_struct(Inputs(self._rpcs[key], self._words, self._random).message()), version)
                encode(message, version)
            except (ApiError, Corrupt, ValueError):
                continue
            return api, message, version
        return api, api.request(), version

    def _ill_framed(self) -> bytes:
        random = self._random
        api, message, version = self._message()
        asked = encode_request(api, message, version=version, correlation_id=7, client_id=self._client_id())
        match random.randrange(7):
            case 0:
                return random.randbytes(random.choice((1, 3, 4, 5, 30, 3000)))
            case 1:
                return random.choice(SIZES).to_bytes(4, signed=True) + asked
            case 2:
                return frame(random.choice(KEYS).to_bytes(2, signed=True), asked[2:])
            case 3:
                return frame(asked[:2], random.choice(VERSIONS).to_bytes(2, signed=True), asked[4:])
            case 4:
                whole = frame(asked)
                return whole[: random.randrange(len(whole))]
            case 5:
                versions = all_apis()[API_VERSIONS]
                version = random.choice(versions.versions)
                each = encode_request(versions, versions.request(), version=version, correlation_id=1, client_id=None)
                return frame(each) * MANY
            case _:
                return frame(asked[: random.randrange(len(asked))])

    def _damaged(self, data: bytes) -> bytes:
        damaged, random = bytearray(data), self._random
        for _ in range(random.choice((1, 1, 3, 10))):
            at = random.randrange(len(damaged))
            match random.randrange(3):
                case 0:
                    damaged[at] ^= 1 << random.randrange(8)
                case 1:
                    damaged[at:at] = random.randbytes(random.choice((1, 4, 40)))
                case _ if len(damaged) > MANY:
                    del damaged[at : at + 4]
                case _:
                    damaged[at] = random.choice((0, 127, 128, 255))
        return bytes(damaged)

    def _client_id(self) -> str | None:
        return self._random.choice((None, "", "admin", "ü" * 30, "a\nb"))


def _rpc(key: int, backend: Backend) -> Rpc:
    """The RPC that answers an API."""
    name = all_apis()[key].name
    return next(each for each in rpcs_of(PROGRAMS[backend]) if each.name == name)
