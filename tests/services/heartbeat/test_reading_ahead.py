"""A stream that is read ahead of its answers and then refused leaves nothing in memory."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator, Iterator

import pytest

from quorate.errors import ApiError, ErrorCode
from services.heartbeat.reading_ahead import read_ahead


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collector")
async def test_a_refused_stream_leaves_neither_its_error_nor_what_its_frames_have() -> None:
    """The requests of 4 MiB are in these frames: a heartbeat service had 165 MiB after them, until a collection."""
    errors: list[weakref.ref[ApiError]] = []

    def refusal() -> ApiError:
        made = ApiError(ErrorCode.INVALID_REQUEST, "too large")
        errors.append(weakref.ref(made))
        return made

    async def requests() -> AsyncIterator[bytes]:
        yield b"small"
        raise refusal()

    read = []
    try:
        async for each in read_ahead(requests(), len, size_max=100):
            read.append(each)
    except ApiError as refused:
        read.append(refused.message.encode())

    assert [b"small", b"too large"] == read
    assert [None] == [error() for error in errors]
