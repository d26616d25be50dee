"""Pagination at one offset: all pages of a list show the same state, which the timeline keeps while it is read."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Final

from kraft.api.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from quorate.controller.engine.engine import Engine
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import Offset

KEPT_S: Final = 60.0
"""Time (s) for which a state is kept after its last page was read; its cost is what has been overwritten since."""
KEPT_MAX: Final = 16
"""States kept for readers at once; beyond it the least recently read one is dropped."""

Cursor = DescribeTopicPartitionsRequest.Cursor


@dataclass(frozen=True, slots=True)
class Page:
    """The position of a page: the offset of the state, and the cursor of the page's first item."""

    offset: Offset
    cursor: Cursor

    def token(self) -> str:
        """Returns the page as a base64 token, opaque to clients."""
        text = f"{self.offset}:{self.cursor.partition_index}:{self.cursor.topic_name}"
        return urlsafe_b64encode(text.encode()).decode("ascii")


def parse(token: str) -> Page:
    """Parses a page token. Raises ApiError(INVALID_REQUEST) for a malformed one."""
    try:
        offset, partition, name = urlsafe_b64decode(token.encode("ascii")).decode().split(":", 2)
        return Page(int(offset), Cursor(name, int(partition)))
    except ValueError:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"page_token: {token!r} is not one that this service has given",
            {"field": "page_token"},
        ) from None


def not_kept(offset: Offset) -> ApiError:
    """Returns the error for a page whose state is gone."""
    return ApiError(
        ErrorCode.SNAPSHOT_NOT_FOUND,
        f"the state at offset {offset} is not kept any more: the list has to be read from its beginning",
    )


class Pages:
    """Keeps states in the timeline for readers of paginated lists, `KEPT_MAX` at most, each `KEPT_S` after a page."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kept: dict[Offset, asyncio.TimerHandle] = {}

    def hold(self, page: Page) -> None:
        """Holds the page's state while the page is read: the caller releases it in the timeline's registry.

        Raises ApiError(SNAPSHOT_NOT_FOUND) if this controller does not keep the state, or no longer does.
        """
        if page.offset not in self._kept or not self._engine.state.registry.is_held(page.offset):
            raise not_kept(page.offset)
        self._engine.state.registry.hold(page.offset)

    def turn(self, offset: Offset, response: DescribeTopicPartitionsResponse) -> str:
        """Returns the token of the page after `response` and keeps its state; empty after the last page.

        The state at `offset` must be held.
        """
        if response.next_cursor is None:
            return ""
        self._keep(offset)
        following = Cursor(response.next_cursor.topic_name, response.next_cursor.partition_index)
        return Page(offset, following).token()

    def _keep(self, offset: Offset) -> None:
        timer = self._kept.pop(offset, None)
        if timer is None:
            self._engine.state.registry.hold(offset)
            if len(self._kept) >= KEPT_MAX:
                self._drop(next(iter(self._kept)))
        else:
            timer.cancel()
        self._kept[offset] = asyncio.get_running_loop().call_later(KEPT_S, self._drop, offset)
        assert len(self._kept) <= KEPT_MAX, list(self._kept)

    def _drop(self, offset: Offset) -> None:
        self._kept.pop(offset).cancel()
        self._engine.state.registry.release(offset)
