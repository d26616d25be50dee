"""Message JSON with one thing wrong in it, for every thing that the comparison must see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from tests.conformance.message_json import Range, versions

Plant = tuple[str, Mapping[str, Any]]
"""What is wrong, and the document in which it is."""

OTHER_TYPE: Final = {
    "bool": "int8",
    "int8": "int16",
    "int16": "int32",
    "uint16": "int32",
    "int32": "int64",
    "int64": "int32",
    "float64": "int64",
    "string": "bytes",
    "bytes": "string",
    "records": "bytes",
    "uuid": "string",
}


def plants(document: Mapping[str, Any]) -> Iterator[Plant]:
    """Every wrong document that is one step from a right one."""
    document = {**document, "fields": _with_common_structs_in_place(document)}
    for key in ("apiKey", "validVersions", "flexibleVersions"):
        if document.get(key, "none") != "none":
            yield f"{key} raised by one", {**document, key: _raised(document[key])}
    yield "a field added", {**document, "fields": [*document["fields"], {**_NEW, "versions": "0+"}]}
    spoken = versions(document["validVersions"])
    assert spoken is not None
    for path, here in _places(document["fields"], (), spoken):
        for label, change in _CHANGES.items():
            if wrong := _changed(document, path, change, here):
                yield f"{'.'.join(map(str, path))}: {label}", wrong


_NEW: Final = {"name": "Novelty", "type": "int32", "about": "What a later release might bring."}

Path = tuple[int, ...]
Change = Callable[[list[dict[str, Any]], int, Range], bool]
"""Changes one of the fields in a list; false where the change has no meaning. The range is where the field is there."""


def _with_common_structs_in_place(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The fields of the message, each with its own copy of the struct that the JSON declares beside them."""
    common = {struct["name"]: struct["fields"] for struct in document.get("commonStructs", ())}

    def in_place(members: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        inner = [field.get("fields", common.get(field["type"].removeprefix("[]"), ())) for field in members]
        return [
            {**field, **({"fields": in_place(below)} if below else {})}
            for field, below in zip(members, inner, strict=True)
        ]

    return in_place(document["fields"])


def _places(members: Sequence[Mapping[str, Any]], above: Path, spoken: Range) -> Iterator[tuple[Path, Range]]:
    """Where a field stands that some version has, and in which of the spoken versions it is there."""
    for at, field in enumerate(members):
        given = versions(field["versions"])
        if given is not None and (here := given.within(spoken)):
            yield (*above, at), here
            yield from _places(field.get("fields", ()), (*above, at), here)


def _changed(document: Mapping[str, Any], path: Path, change: Change, here: Range) -> Mapping[str, Any] | None:
    """A copy with the change made at a place; None where the change has no meaning."""
    copy = deepcopy(dict(document))
    siblings = copy["fields"]
    for at in path[:-1]:
        siblings = siblings[at]["fields"]
    return copy if change(siblings, path[-1], here) else None


def _raised(given: Any) -> Any:
    """A key or a range of versions with its last number, or its open beginning, raised by one."""
    if isinstance(given, int):
        return given + 1
    head, dash, last = given.removesuffix("+").rpartition("-")
    return f"{head}{dash}{int(last) + 1}{'+' if given.endswith('+') else ''}"


# One change each: to the list of siblings, at a place, for a field that is there in the versions `here`.


def _drop(siblings: list[dict[str, Any]], at: int, here: Range) -> bool:
    del siblings[at]
    return True


def _rename(siblings: list[dict[str, Any]], at: int, here: Range) -> bool:
    siblings[at]["name"] += "s"
    return True


def _move(siblings: list[dict[str, Any]], at: int, here: Range) -> bool:
    other = next((i for i in range(at + 1, len(siblings)) if _overlap(siblings[i], here)), None)
    if other is None:
        return False
    siblings[at], siblings[other] = siblings[other], siblings[at]
    return True


def _overlap(field: Mapping[str, Any], here: Range) -> bool:
    given = versions(field["versions"])
    return given is not None and bool(given.within(here))


def _retype(siblings: list[dict[str, Any]], at: int, here: Range) -> bool:
    given = siblings[at]["type"]
    if given == "bool":
        siblings[at].pop("default", None)  # which another type could not have
    siblings[at]["type"] = given.removeprefix("[]") if given.startswith("[]") else OTHER_TYPE.get(given, f"[]{given}")
    return True


def _redefault(siblings: list[dict[str, Any]], at: int, here: Range) -> bool:
    field = siblings[at]
    if field.get("default") == "null":
        del field["default"]
    elif "nullableVersions" in field:
        field["default"] = "null"
    elif field["type"] == "bool":
        field["default"] = "false" if str(field.get("default", "false")).lower() == "true" else "true"
    elif "int" in field["type"] and not field["type"].startswith("[]"):
        field["default"] = int(str(field.get("default", 0)), 0) - 1
    else:
        return False
    return True


def _retag(siblings: list[dict[str, Any]], at: int, here: Range) -> bool:
    field = siblings[at]
    if "tag" in field:
        field["tag"] += 20
    else:
        field |= {"tag": 20, "taggedVersions": field["versions"]}
    return True


def _untag(siblings: list[dict[str, Any]], at: int, here: Range) -> bool:
    return siblings[at].pop("tag", None) is not None and bool(siblings[at].pop("taggedVersions"))


def _begin_later(siblings: list[dict[str, Any]], at: int, here: Range) -> bool:
    _there_in(siblings[at], f"{here.first + 1}+")
    return True


def _end_earlier(siblings: list[dict[str, Any]], at: int, here: Range) -> bool:
    _there_in(siblings[at], f"{here.first}-{here.last - 1}")
    return here.first < here.last


def _there_in(field: dict[str, Any], given: str) -> None:
    field["versions"] = given
    if "tag" in field:
        field["taggedVersions"] = given


def _renull(siblings: list[dict[str, Any]], at: int, here: Range) -> bool:
    field = siblings[at]
    if "nullableVersions" in field:
        del field["nullableVersions"]
    else:
        field["nullableVersions"] = field["versions"]
    return True


def _recompact(siblings: list[dict[str, Any]], at: int, here: Range) -> bool:
    if siblings[at].pop("flexibleVersions", None) is None:
        siblings[at]["flexibleVersions"] = "none"
    return True


def _flip(key: str) -> Change:
    def flip(siblings: list[dict[str, Any]], at: int, here: Range) -> bool:
        siblings[at][key] = not siblings[at].get(key, False)
        return True

    return flip


_CHANGES: Final[Mapping[str, Change]] = {
    "dropped": _drop,
    "renamed": _rename,
    "changed places with the next": _move,
    "of another type": _retype,
    "with another default": _redefault,
    "with another tag": _retag,
    "without its tag": _untag,
    "one version later": _begin_later,
    "gone one version earlier": _end_earlier,
    "null where it was not, or the other way round": _renull,
    "of a length that is compact where it was not, or the other way round": _recompact,
    "ignorable the other way round": _flip("ignorable"),
    "a map key the other way round": _flip("mapKey"),
}
