"""Limits on the items of a request, checked before it is served, as each item costs time of the event loop."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from google.protobuf.message import Message

from quorate.errors import ApiError, ErrorCode
from quorate.wire.items import Items, Steps

__all__ = ["LIST_MAX", "check_items", "check_items_in_steps", "check_list"]

LIST_MAX: Final = 10_000
"""Most items of one list, as Kafka's MAX_PARTITIONS_PER_BATCH and MAX_RECORDS_PER_USER_OP."""
ITEMS_MAX: Final = 50_000
"""Most items of all lists together: enough for 10,000 partitions with their replicas."""


def check_items(request: Message) -> None:
    """Raises ApiError(POLICY_VIOLATION) for a request with a list above `LIST_MAX`, or more than `ITEMS_MAX` in all."""
    for _ in check_items_in_steps(request):
        pass


def check_items_in_steps(request: Message) -> Steps[None]:
    """As `check_items`, in steps, for `in_turns`: to count 30,000 items takes 70 ms. Checks nothing until it is run."""
    # An item takes at least a byte, so a request of few bytes has few items.
    if request.ByteSize() > LIST_MAX and (yield from _counted(request, 0, "", Items())) > ITEMS_MAX:
        raise _too_many("the request", f"more than {ITEMS_MAX}", ITEMS_MAX)


def check_list(where: str, count: int) -> None:
    """Raises ApiError(POLICY_VIOLATION) for a list, the request's field `where`, that has more than `LIST_MAX` items.

    For lists whose items are looked at one by one later, so that they are not visited twice.
    """
    if count > LIST_MAX:
        raise _too_many(where, str(count), LIST_MAX)


def _counted(message: Message, count: int, path: str, done: Items) -> Steps[int]:
    """Returns `count` plus the list items in `message`; stops counting above `ITEMS_MAX`. Raises ApiError."""
    for field, value in message.ListFields():
        where = f"{path}{field.name}"
        is_message = field.cpp_type == field.CPPTYPE_MESSAGE
        items: Any = value if field.is_repeated else (value,) if is_message else ()
        if field.is_repeated:
            check_list(where, len(value))
            count += len(value)
        for item in items if is_message and _holds_lists(field.message_type) else ():
            if count > ITEMS_MAX:
                return count
            count = yield from _counted(item, count, f"{where}.", done)
            yield from done.one()
    return count


@cache
def _holds_lists(descriptor: Any) -> bool:
    """Whether messages of this type contain a list; items of other types are counted without being visited."""
    return any(
        field.is_repeated or (field.message_type is not None and _holds_lists(field.message_type))
        for field in descriptor.fields
    )


def _too_many(where: str, how_many: str, most: int) -> ApiError:
    why = f"{where}: {how_many} items; at most {most} may be asked for at once"
    return ApiError(ErrorCode.POLICY_VIOLATION, why, {"field": where, "max": str(most)})
