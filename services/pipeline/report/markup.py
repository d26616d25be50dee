"""Builds HTML safely: every string is escaped unless it is markup that this module made."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Final

__all__ = ["NOTHING", "Child", "Html", "joined", "tag", "text"]

_VOID: Final = ("meta", "br", "input")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Control characters, including those that change text direction; names in a log may contain any."""


class Html(str):
    """Text that is already escaped markup."""

    __slots__ = ()


NOTHING: Final = Html()
Child = Html | str | int | float | None


def text(value: object) -> Html:
    """Escapes text; a float is printed with at most one decimal place.

    >>> text("<b>\\n"), text(12.04), text(3.26)
    ('&lt;b&gt;�', '12', '3.3')

    """
    if isinstance(value, Html):
        return value
    if isinstance(value, float):
        return Html(f"{value:.1f}".removesuffix(".0"))
    return Html(html.escape(_UNPRINTABLE.sub("�", str(value))))


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Html:
    """Builds an element; children and attributes that are None are left out.

    Attribute `class_` becomes class, `stroke_width` becomes stroke-width.

    >>> tag("a", "<", Html("<br>"), class_="x", id=None)
    '<a class="x">&lt;<br></a>'

    """
    attributes_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{attributes_text}>")
    return Html(f"<{name}{attributes_text}>{joined(children)}</{name}>")


def joined(children: Iterable[Child]) -> Html:
    """Concatenates children, escaping those that are not markup; None is skipped."""
    return Html("".join(text(child) for child in children if child is not None))
