"""The chart's values as its schema and its defaults have them, and the table of them in its README.

`python -m tests.deploy.chart_values` writes the table anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.deploy.chart import CHART, Json, schema, values_file

README: Final = CHART / "README.md"
BEGIN: Final = "<!-- values: python -m tests.deploy.chart_values -->\n"
END: Final = "<!-- end of values -->\n"


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


def table() -> str:
    """The table of all values, as Markdown."""
    rows = ["| value | default | what |", "|---|---|---|"]
    for place, default, shape in leaves(values_file()):
        shown = json.dumps(default).replace("|", "\\|")
        rows.append(f"| `{place}` | `{shown}` | {shape['description']} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """Writes the table into the README."""
    before, _, rest = README.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(f"{before}{BEGIN}{table()}{END}{after}")


if __name__ == "__main__":
    main()
