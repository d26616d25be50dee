"""`meta.properties`: which cluster, node and disk a directory belongs to."""

from __future__ import annotations

import string
import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kraft import Uuid
from quorate.errors import Corrupt
from quorate.nouns import NodeId, parse_uuid, reserved_uuid, uuid_text
from quorate.properties import parse_properties
from quorate.storage.files import replace_whole
from quorate.storage.names import META_PROPERTIES

NODE_ID: Final = {0: "broker.id", 1: "node.id"}
"""What the node's id is called in each version of the file."""
_PLAIN: Final = frozenset(string.ascii_letters + string.digits + "-_.,;+*/@%&()[]{}<>|^~?$'`\"")
"""What stands for itself in a value; Java escapes `=`, `:`, `#` and `!` there too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """A directory's owner. `directory_id` is None in files older than KIP-858."""

    cluster_id: str
    node_id: NodeId
    directory_id: Uuid | None
    version: int = 1


def read_meta_properties(directory: Path) -> MetaProperties | None:
    """What a directory says of itself; None if it is not formatted. Raises Corrupt, naming file, key and value."""
    path = directory / META_PROPERTIES
    try:
        found = parse_properties(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, UnicodeDecodeError) as problem:
        raise Corrupt(f"not a properties file: {problem}", path=path) from None
    version = _number(path, found, "version")
    if version not in NODE_ID:
        raise Corrupt(f"version is {version}; 0 and 1 are known", path=path)
    if not found.get("cluster.id"):
        raise Corrupt("cluster.id is missing", path=path)
    return MetaProperties(
        cluster_id=found["cluster.id"],
        node_id=_number(path, found, NODE_ID[version]),
        directory_id=_directory_id(path, found),
        version=version,
    )


def write_meta_properties(directory: Path, meta: MetaProperties) -> None:
    """Mark a directory as formatted: the last step, so that half a format is none."""
    now = datetime.now(UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    lines = ["#", f"#{now}", f"node.id={meta.node_id}"]
    if meta.directory_id is not None:
        lines.append(f"directory.id={uuid_text(meta.directory_id)}")
    lines += [f"version={meta.version}", f"cluster.id={_escaped(meta.cluster_id)}"]
    replace_whole(directory / META_PROPERTIES, ("\n".join(lines) + "\n").encode("ascii"))


def check_owner(directory: Path, *, node_id: NodeId, cluster_id: str | None = None) -> MetaProperties:
    """What the directory says of itself, if it is this node's.

    Raises Corrupt, naming the file, both values and the rule.
    """
    meta = read_meta_properties(directory)
    path = directory / META_PROPERTIES
    if meta is None:
        raise Corrupt("the directory is not formatted: run `quorate storage format` first", path=path)
    if meta.node_id != node_id:
        raise Corrupt(f"node.id is {meta.node_id}, the configuration says {node_id}: it is another node's", path=path)
    if cluster_id is not None and meta.cluster_id != cluster_id:
        why = f"cluster.id is {meta.cluster_id}, {cluster_id} is expected: it belongs to another cluster"
        raise Corrupt(why, path=path)
    return meta


def _escaped(value: str) -> str:
    """A value as Java's Properties reads it back, whatever is in it and in whatever encoding the file is read."""
    units = struct.unpack(f">{len(value.encode('utf-16-be')) // 2}H", value.encode("utf-16-be"))
    return "".join(chr(unit) if chr(unit) in _PLAIN else f"\\u{unit:04x}" for unit in units)


def _number(path: Path, found: dict[str, str], key: str) -> int:
    try:
        value = int(found[key])
    except (KeyError, ValueError):
        raise Corrupt(f"{key} is {found.get(key)!r}, not a number", path=path) from None
    if value < 0:
        raise Corrupt(f"{key} is {value}; it is not negative", path=path)
    return value


def _directory_id(path: Path, found: dict[str, str]) -> Uuid | None:
    text = found.get("directory.id")
    if text is None:
        return None
    try:
        directory_id = parse_uuid(text)
    except ValueError as problem:
        raise Corrupt(f"directory.id: {problem}", path=path) from None
    if reserved_uuid(directory_id):
        raise Corrupt(f"directory.id is {text}; the first hundred ids are reserved (KIP-858)", path=path)
    return directory_id
