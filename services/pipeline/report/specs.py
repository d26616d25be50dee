"""What all plots have in common, as a Vega-Lite specification: the x axis that zooms, and the looks that can be hidden.

A specification has three parameters that the page's script sets: `domain`, the part of the x axis that is shown;
`hidden`, the looks that are not drawn; and `narrow`, whether the page is as narrow as on a phone. For a narrow page the
script also merges `usermeta.narrow` into the specification.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

__all__ = ["LABELS", "SEEN", "Spec", "clipped", "colour", "specification", "x_time"]

Spec: TypeAlias = dict[str, object]
LABELS: Final = 180
"""Space to the left of a plot for labels, in px: plots of one group begin at the same place."""
SEEN: Final = "indexof(hidden, datum.look) < 0"
"""Expression: the datum's look is not hidden."""
_FORMATS: Final = {
    "year": "%Y",
    "quarter": "%b %Y",
    "month": "%b %Y",
    "week": "%b %d",
    "date": "%b %d",
    "day": "%b %d",
    "hours": "%H:%M",
    "minutes": "%H:%M",
    "seconds": "%H:%M:%S",
    "milliseconds": "%H:%M:%S.%L",
}
_LABEL: Final = (
    "+domain[1] - +domain[0] > 600000 ? datum.label : "
    "utcFormat(datum.value, +datum.value % 1000 ? '%H:%M:%S.%L' : '%H:%M:%S')"
)
"""Expression: within ten minutes every label has its seconds, also a full minute's."""


def specification(
    title: str,
    domain: tuple[float, float],
    datasets: Mapping[str, Sequence[Mapping[str, object]]],
    layers: Iterable[Spec],
    *,
    heights: tuple[int, int],
) -> Spec:
    """Makes the specification of a plot; `heights` are in px, on a wide and on a narrow page."""
    return {
        "description": title,
        "width": "container",
        "height": heights[0],
        "padding": {"left": 8, "right": 10, "top": 6, "bottom": 4},
        "autosize": {"type": "fit-x", "contains": "padding"},
        "usermeta": {"narrow": {"height": heights[1]}},
        "params": [
            {"name": "domain", "value": list(domain)},
            {"name": "hidden", "value": []},
            {"name": "narrow", "value": False},
        ],
        "datasets": datasets,
        "layer": list(layers),
    }


def x_time(field: str) -> Spec:
    """Encodes moments in ms since 1970 on the x axis, in UTC."""
    axis = {
        "title": None,
        "format": _FORMATS,
        "labelExpr": _LABEL,
        "tickCount": {"expr": "max(2, floor(width / 110))"},
    }
    scale = {"type": "utc", "domain": {"expr": "domain"}, "nice": False}
    return {"field": field, "type": "temporal", "scale": scale, "axis": axis}


def colour(looks: Iterable[str]) -> Spec:
    """Encodes looks as colours of the page's CSS, so that dark mode needs no other plot."""
    names = list(looks)
    scale = {"domain": names, "range": [f"var(--{name})" for name in names]}
    return {"field": "look", "type": "nominal", "scale": scale, "legend": None}


def clipped(mark: str, **properties: object) -> Spec:
    """Describes marks that end where the plot ends."""
    return {"type": mark, "clip": True, **properties}
