"""The file `meta.properties`: the cluster id, node id and directory id of a log directory.

Kafka's file has no checksum. Ours ends in a comment line with one, which Kafka ignores and does not write; the line has
a marker at both ends, so that no single wrong byte can turn it into another comment.
"""

from __future__ import annotations

import string
import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from crc32c import crc32c

from kraft import Uuid
from quorate.errors import Corrupt
from quorate.nouns import NodeId, parse_uuid, reserved_uuid, uuid_text
from quorate.properties import parse_properties
from quorate.storage.files import replace_whole
from quorate.storage.names import META_PROPERTIES

NODE_ID: Final = {0: "broker.id", 1: "node.id"}
"""The property with the node's id, by version of the file."""
_MARKS: Final = (b"#crc32c ", b" #quorate\n")
_PLAIN: Final = frozenset(string.ascii_letters + string.digits + "-_.,;+*/@%&()[]{}<>|^~?$'`\"")
"""Characters that need no escape in a value; Java escapes `=`, `:`, `#` and `!` in values, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The ids of a log directory's cluster, node and disk. `directory_id` is None in files older than KIP-858."""

    cluster_id: str
    node_id: NodeId
    directory_id: Uuid | None
    version: int = 1


def read_meta_properties(directory: Path) -> MetaProperties | None:
    """Reads a directory's meta.properties; None if it is not formatted. Raises Corrupt, naming file, key and value."""
    path = directory / META_PROPERTIES
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return parse_meta_properties(data, path)


def parse_meta_properties(data: bytes, path: Path) -> MetaProperties:
    """Parses the content of a meta.properties. Raises Corrupt, naming `path`, key and value."""
    try:
        _check_sum(data)
        found = parse_properties(data.decode("utf-8"))
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
    """Writes meta.properties, durably. It is the last step of a format, so that an unfinished format does not count."""
    now = datetime.now(UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    lines = ["#", f"#{now}", f"node.id={meta.node_id}"]
    if meta.directory_id is not None:
        lines.append(f"directory.id={uuid_text(meta.directory_id)}")
    lines += [f"version={meta.version}", f"cluster.id={_escaped(meta.cluster_id)}"]
    body = ("\n".join(lines) + "\n").encode("ascii")
    replace_whole(directory / META_PROPERTIES, body + _sum_line(body))


def check_owner(directory: Path, *, node_id: NodeId, cluster_id: str | None = None) -> MetaProperties:
    """Returns the directory's meta.properties if its ids are those of this node and, unless None, of the cluster.

    Raises Corrupt otherwise, also for a directory that is not formatted, naming the file, both values and the rule.
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


def _sum_line(body: bytes) -> bytes:
    return b"%b%08x%b" % (_MARKS[0], crc32c(body), _MARKS[1])


def _check_sum(data: bytes) -> None:
    """Raises ValueError if the file has our checksum and it does not match."""
    if any(mark.strip() in data for mark in _MARKS):  # in a value Java escapes the `#`
        body = data[: -len(_sum_line(b""))]
        if _sum_line(body) != data[len(body) :]:
            raise ValueError(f"its last line is {data[len(body) :]!r}, and by what stands above {_sum_line(body)!r}")


def _escaped(value: str) -> str:
    """Returns a value escaped as Java's Properties does it, in ASCII."""
    units = struct.unpack(f">{len(value.encode('utf-16-be')) // 2}H", value.encode("utf-16-be"))
    return "".join(chr(unit) if chr(unit) in _PLAIN else f"\\u{unit:04x}" for unit in units)


def _number(path: Path, found: dict[str, str], key: str) -> int:
    try:
        value = int(found[key])
    except (KeyError, ValueError):
        raise Corrupt(f"{key} is {found.get(key)!r}, not a number", path=path) from None
    if value < 0:
        raise Corrupt(f"{key} is {value}; it must not be negative", path=path)
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
