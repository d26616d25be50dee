"""One burst at a gateway: many connections, and what came of what each sent."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any, Final

from kraft.api.envelope import EnvelopeResponse
from quorate.errors import ErrorCode
from quorate.protocol.errors import ProtocolError
from quorate.protocol.frames import Frames
from quorate.protocol.messages import decode_body, decode_response_header
from quorate.wire.protobuf import json_form
from tests.fuzz.burst import Outcome
from tests.fuzz.inputs import Words
from tests.fuzz.wire_inputs import Asked, Sent, WireInputs

SIDE_BY_SIDE: Final = 24
PATIENCE_S: Final = 2.0
"""An answer that takes longer (a fetch at the end of the log) is not waited for."""
LOOK_S: Final = 0.1
"""How long it is seen what a gateway does with what is no request."""
CLOSE_WITHIN_S: Final = 60.0
"""Against hanging alone."""
READ_BYTES: Final = 1 << 16
ANSWER_BYTES_MAX: Final = 1 << 28
MANY_ANSWERS: Final = 1 << 30
CLOSED: Final = "closed"
ANSWERED: Final = "OK"
WAITS: Final = "DEADLINE_EXCEEDED"
SHOWN: Final = 600


async def wire_burst(address: str, target: str, words: Words, *, seed: str, count: int) -> Outcome:
    """`count` connections, each with what it sends. Statuses are named as those of the RPCs are."""
    outcome = Outcome()
    inputs = WireInputs(target, words, Random(seed))
    places = iter(range(count))

    async def worker() -> None:
        for place in places:
            sent = inputs.draw()
            outcome.inputs += 1
            status, unmeant = await _ended(address, sent)
            outcome.statuses[status] += 1
            if unmeant:
                outcome.unmeant.append(f"{target} {seed} connection {place}: {unmeant} after {_shown(sent)}")

    await asyncio.gather(*(worker() for _ in range(min(SIDE_BY_SIDE, count))))
    return outcome


async def _ended(address: str, sent: Sent) -> tuple[str, str]:
    """How a connection ended, and what is wrong with that: the client ends its side, and the gateway has to end its."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    answers: list[bytes] = []
    expected = MANY_ANSWERS if sent.requests is None else len(sent.requests)
    status, unmeant = CLOSED, ""
    try:
        writer.write(sent.data)
        if not await _read(reader, answers, expected, LOOK_S if sent.requests is None else PATIENCE_S):
            status = ANSWERED if len(answers) >= expected else WAITS
            if not writer.transport.is_closing():  # the gateway may have closed behind its last answer
                writer.write_eof()
            if not await _read(reader, [], MANY_ANSWERS, CLOSE_WITHIN_S):
                unmeant = f"the connection is still open after {CLOSE_WITHIN_S:g} s; "
    except ConnectionError:
        pass
    except ProtocolError as problem:
        unmeant = f"the gateway sends what is no frame: {problem}; "
    finally:
        writer.transport.abort()
    return status, unmeant + _misfit(sent, answers)


async def _read(reader: asyncio.StreamReader, answers: list[bytes], expected: int, within_s: float) -> bool:
    """Adds answers until there are as many as expected, or time is up; True if the connection is closed."""
    frames = Frames(size_max=ANSWER_BYTES_MAX)
    try:
        async with asyncio.timeout(within_s):
            while len(answers) < expected:
                if not (data := await reader.read(READ_BYTES)):
                    return True
                frames.receive_data(data)
                while (answer := frames.take()) is not None:
                    answers.append(answer)
    except TimeoutError:
        pass
    return False


def _misfit(sent: Sent, answers: list[bytes]) -> str:
    """What is wrong with the answers: they come in order, each in the version of its request, none a fault of ours."""
    pairs = zip(sent.requests or (), answers, strict=False)
    return next(filter(None, (_wrong(asked, answer, number) for number, (asked, answer) in enumerate(pairs))), "")


def _wrong(asked: Asked, answer: bytes, number: int) -> str:
    """What is wrong with one answer, and with the one in it if it is an envelope's."""
    name = f"{asked.api.name} v{asked.version}"
    try:
        header, position = decode_response_header(asked.api, asked.version, answer)
        message = decode_body(asked.api.response, answer, position, asked.version)
    except ProtocolError as problem:
        return f"{name}: the answer cannot be read: {problem}: {answer[:SHOWN].hex()}"
    if header.correlation_id != number:
        return f"{name}: answer {header.correlation_id} comes as number {number}"
    if ErrorCode.UNKNOWN_SERVER_ERROR in _codes(json_form(message)):
        return f"{name}: UNKNOWN_SERVER_ERROR: {str(message)[:SHOWN]}"
    if isinstance(message, EnvelopeResponse) and asked.inside is not None and message.response_data is not None:
        return _wrong(asked.inside, message.response_data, number)
    return ""


def _codes(value: Any) -> Counter[int]:
    """Every error code of an answer."""
    found: Counter[int] = Counter()
    if isinstance(value, dict):
        for key, each in value.items():
            found += Counter([each]) if key == "errorCode" else _codes(each)
    elif isinstance(value, list):
        for each in value:
            found += _codes(each)
    return found


def _shown(sent: Sent) -> str:
    asked = [f"{each.api.name} v{each.version}" for each in sent.requests or ()]
    return f"{asked} {sent.data[:SHOWN].hex()}"
