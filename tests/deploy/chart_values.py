"""The chart's values as its schema and its defaults have them, and the tables of them in its README.

`python -m tests.deploy.chart_values` writes the tables anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from tests.deploy.chart import CHART, Json, schema, values_file

README: Final = CHART / "README.md"


def leaves(values: Mapping[str, Any], shape: Json | None = None, place: str = "") -> Iterator[tuple[str, Any, Json]]:
    """Every value that a user may set: its path, its default, and its schema; a map of free keys is one value."""
    shape = shape or schema()
    for name, default in values.items():
        inner = shape["properties"][name]
        if inner.get("properties") and "description" not in inner:
            yield from leaves(default, inner, f"{place}{name}.")
        else:
            yield f"{place}{name}", default, inner


def unset(shape: Json, values: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """What the schema knows and values.yaml does not say."""
    for name, inner in shape["properties"].items():
        if name not in values:
            yield f"{place}{name}"
        elif inner.get("properties") and "description" not in inner:
            yield from unset(inner, values[name], f"{place}{name}.")


def listener_keys() -> Iterator[tuple[str, Json, bool]]:
    """Every key of a listener of the gateways: its path, its schema, and whether each listener has to have it."""
    listener = schema()["definitions"]["listener"]
    for name, shape in listener["properties"].items():
        if "properties" not in shape:
            yield name, shape, name in listener["required"]
        for inner, inner_shape in shape.get("properties", {}).items():
            yield f"{name}.{inner}", inner_shape, False


def values_table() -> str:
    """The table of all values, as Markdown."""
    return _table("value", ((place, json.dumps(default), shape) for place, default, shape in leaves(values_file())))


def listener_table() -> str:
    """The table of the keys of a listener."""
    return _table(
        "key",
        (
            (place, "required" if is_required else json.dumps(shape["default"]) if "default" in shape else "", shape)
            for place, shape, is_required in listener_keys()
        ),
    )


TABLES: Final[Mapping[str, Callable[[], str]]] = {"values": values_table, "listeners": listener_table}
"""By the name that is in the comments before and after each in the README."""


def parts(name: str, text: str) -> tuple[str, str, str]:
    """What is before a table in the README, the table, and what is after it."""
    begin, end = f"<!-- {name}: python -m tests.deploy.chart_values -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = text.partition(begin)
    inside, _, after = rest.partition(end)
    return before + begin, inside, end + after


def main() -> None:
    """Writes the tables into the README."""
    for name, table in TABLES.items():
        before, _, after = parts(name, README.read_text())
        README.write_text(before + table() + after)


def _table(head: str, rows: Iterable[tuple[str, str, Json]]) -> str:
    lines = [f"| {head} | default | what |", "|---|---|---|"]
    for place, default, shape in rows:
        shown = default.replace("|", "\\|")
        lines.append(f"| `{place}` | {f'`{shown}`' if shown else ''} | {shape['description']} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
