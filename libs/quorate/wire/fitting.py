"""Fits a message to a version: fields that the version lacks get their defaults, so that the rest can be encoded.

A server decides in terms of the newest version, and a client may ask in an older one. Kafka's response classes leave
out, one by one, what an older version has no room for; here the schema says it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec

from kraft import Message
from quorate.wire.items import Items, Steps, each_in_steps, has_lists
from quorate.wire.schema import Layout, default_of, layout_of

__all__ = ["fitted", "fitted_in_steps", "is_whole"]

M = TypeVar("M", bound=Message)

Fit = Callable[[Any], Any]


def is_whole(message: Message, version: int) -> bool:
    """Returns whether `version` has all fields of the message's class, nested structs too: nothing is to be fitted."""
    return _fitter(layout_of(type(message)), version) is None


def fitted(message: M, version: int) -> M:
    """Returns `message` with defaults in the fields that `version` lacks; the same object if it lacks none."""
    fit = _fitter(layout_of(type(message)), version)
    found: M = message if fit is None else fit(message)
    return found


def fitted_in_steps(message: M, version: int) -> Steps[M]:
    """Does what `fitted` does, in steps of `ITEMS_PER_STEP` items."""
    found: M = yield from _fit_in_steps(layout_of(type(message)), message, version, Items())
    return found


def _fit_in_steps(layout: Layout, message: Any, version: int, done: Items) -> Steps[Any]:
    if message is None or _fitter(layout, version) is None:
        return message
    changes = {field.name: default_of(field) for field in layout.fields if not field.in_version(version)}
    for field in layout.fields:
        value = getattr(message, field.name)
        if field.name in changes or field.struct is None or value is None:
            continue
        fit = _fitter(field.struct, version)
        if fit is None:
            continue
        if not field.array:
            changes[field.name] = yield from _fit_in_steps(field.struct, value, version, done)
        elif not has_lists(field.struct):
            changes[field.name] = yield from each_in_steps(fit, value, done)
        else:
            items = []
            for item in value:
                items.append((yield from _fit_in_steps(field.struct, item, version, done)))
                yield from done.one()
            changes[field.name] = tuple(items)
    return msgspec.structs.replace(message, **changes)


@cache
def _fitter(layout: Layout, version: int) -> Fit | None:
    """Returns the function that fits a struct of this layout; None if `version` has all of its fields."""
    absent = {field.name: default_of(field) for field in layout.fields if not field.in_version(version)}
    inside = {}
    for field in layout.fields:
        if field.name not in absent and field.struct is not None:
            fit = _fitter(field.struct, version)
            if fit is not None:
                inside[field.name] = _each(fit) if field.array else fit
    if not absent and not inside:
        return None

    def fit_struct(message: Any) -> Any:
        if message is None:
            return None
        changes = absent | {name: fit(getattr(message, name)) for name, fit in inside.items()}
        return msgspec.structs.replace(message, **changes)

    return fit_struct


def _each(fit: Fit) -> Fit:
    return lambda items: None if items is None else tuple(map(fit, items))
