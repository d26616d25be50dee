"""Whether Kafka's JSON of a message and ours say the same, field by field."""

from __future__ import annotations

from typing import Any


def same_fields(theirs: Any, ours: Any, default: Any, path: str) -> None:
    """The fields of Kafka's JSON are ours; a field that it leaves out (not in that version) is at its default with
    us."""
    if isinstance(theirs, dict):
        assert theirs.keys() <= ours.keys(), path
        for name, value in ours.items():
            if name in theirs:
                same_fields(theirs[name], value, default.get(name) if default else None, f"{path}.{name}")
            elif default is not None:
                assert default[name] == value, f"{path}.{name}"
    elif isinstance(theirs, list) and theirs and isinstance(theirs[0], dict):
        assert len(theirs) == len(ours), path
        for index, (their, our) in enumerate(zip(theirs, ours, strict=True)):
            same_fields(their, our, None, f"{path}[{index}]")
    else:
        assert theirs == ours, path
