"""`quorate storage`: format, info and random-uuid, with the output of kafka-storage.sh; it prints no secrets."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from quorate.cli.documents import is_document, print_document, print_lines
from quorate.cli.failures import Failed
from quorate.cli.formatting import DirectoryPlan, FormatOptions, FormatPlan, plan, write
from quorate.cli.node_config import NodeConfig, read_node_config
from quorate.cli.reading import check_regular
from quorate.errors import Corrupt
from quorate.metadata.scram import MECHANISMS
from quorate.metadata.versions import METADATA_VERSION, release_of
from quorate.nouns import uuid_text
from quorate.random_uuid import random_uuid
from quorate.storage.meta_properties import MetaProperties, read_meta_properties
from quorate.storage.names import META_PROPERTIES
from quorate.wire.json_names import json_name

__all__ = ["format_node", "print_random_uuid", "show_info"]

Json = dict[str, Any]  # Any: JSON values


def format_node(config: Path, asked: FormatOptions, *, output: str) -> None:
    """Formats a node's directories that are not formatted yet, and prints what was done; `config` is server.properties.

    Raises Misused, Failed, Corrupt, OSError, as `plan` and `write`.
    """
    found = plan(asked, read_node_config(config))
    write(found, timestamp_ms=time.time_ns() // 1_000_000)
    if is_document(output):
        print_document(_document(found), output)
    else:
        print_lines(_lines(found))


def show_info(config: Path, *, output: str) -> None:
    """Prints a node's meta.properties and its directories' problems; `config` is its server.properties.

    Raises Failed at the end if there are any; Failed and OSError for `config`.
    """
    node = read_node_config(config)
    problems: list[str] = []
    found = {path: meta for path in node.directories if (meta := _look(path, node, problems)) is not None}
    _compare(found, problems)
    directories = [path for path in node.directories if path.is_dir()]
    if is_document(output):
        shown = [{"path": str(path), **(_meta(found[path]) if path in found else {})} for path in directories]
        print_document({"directories": shown, "problems": problems}, output)
    else:
        print_lines(_info_lines(directories, list(found.values()), problems))
    if problems:
        raise Failed(f"{len(problems)} of the directories' problems: {'; '.join(problems)}", printed=True)


def print_random_uuid(*, output: str) -> None:
    """Prints a new random id, as text or JSON."""
    text = uuid_text(random_uuid())
    if is_document(output):
        print_document({"uuid": text}, output)
    else:
        print(text)


def _lines(found: FormatPlan) -> list[str]:
    new = [each for each in found.directories if not each.is_formatted]
    if not new:
        return ["All of the log directories are already formatted."]
    release = release_of(found.metadata_version)
    levels = [f"{METADATA_VERSION}={found.metadata_version}"]
    levels += [f"{name}={level}" for name, level in sorted(found.features.items()) if level]
    lines = [f"Bootstrap metadata: {', '.join(levels)}"]
    lines += [
        f"User {user.name} with {MECHANISMS[user.mechanism]}, {user.iterations} iterations" for user in found.scram
    ]
    return lines + [f"Formatting {_kind(each, found)} {each.path} with {METADATA_VERSION} {release}." for each in new]


def _kind(directory: DirectoryPlan, found: FormatPlan) -> str:
    if not directory.is_metadata:
        return "data directory"
    if found.voters is None:
        return "metadata directory"
    return "dynamic metadata voter directory" if found.is_voter else "dynamic metadata directory"


def _document(found: FormatPlan) -> Json:
    return {
        "metadataVersion": {"level": found.metadata_version, "release": release_of(found.metadata_version)},
        "features": {name: level for name, level in sorted(found.features.items()) if level},
        "scram": [
            {"name": user.name, "mechanism": MECHANISMS[user.mechanism], "iterations": user.iterations}
            for user in found.scram
        ],
        "voters": None if found.voters is None else [_voter(voter) for voter in found.voters.voters],
        "directories": [
            {
                "path": str(each.path),
                "kind": _kind(each, found),
                "alreadyFormatted": each.is_formatted,
                **_meta(each.meta),
            }
            for each in found.directories
        ],
    }


def _voter(voter: Any) -> Json:
    # Any: a nested struct of VotersRecord.
    endpoint = voter.endpoints[0]
    return {
        "id": voter.voter_id,
        "directoryId": uuid_text(voter.voter_directory_id),
        "listener": endpoint.name,
        "host": endpoint.host,
        "port": endpoint.port,
    }


def _meta(meta: MetaProperties) -> Json:
    directory_id = None if meta.directory_id is None else uuid_text(meta.directory_id)
    named = {
        "cluster_id": meta.cluster_id,
        "node_id": meta.node_id,
        "directory_id": directory_id,
        "version": meta.version,
    }
    return {json_name(name): value for name, value in named.items()}


def _look(path: Path, node: NodeConfig, problems: list[str]) -> MetaProperties | None:
    if not path.is_dir():
        problems.append(f"{path} is not a directory" if path.exists() else f"{path} does not exist")
        return None
    try:
        check_regular(path)
        meta = read_meta_properties(path)
    except (Failed, Corrupt, OSError) as problem:
        problems.append(str(problem))
        return None
    if meta is None:
        problems.append(f"{path} is not formatted.")
    elif meta.node_id != node.node_id:
        problems.append(f"{path / META_PROPERTIES}: node.id is {meta.node_id}, the configuration says {node.node_id}")
    return meta


def _compare(found: dict[Path, MetaProperties], problems: list[str]) -> None:
    cluster_ids = {meta.cluster_id for meta in found.values()}
    if len(cluster_ids) > 1:
        problems.append(f"the directories belong to different clusters: {', '.join(sorted(cluster_ids))}")
    directory_ids = [meta.directory_id for meta in found.values() if meta.directory_id is not None]
    for twice in {uuid_text(each) for each in directory_ids if directory_ids.count(each) > 1}:
        problems.append(f"directory.id {twice} is in more than one directory; each has its own")


def _info_lines(directories: list[Path], found: list[MetaProperties], problems: list[str]) -> list[str]:
    lines: list[str] = []
    if directories:
        lines += ["Found log directory:" if len(directories) == 1 else "Found log directories:"]
        lines += [*(f"  {path}" for path in sorted(directories)), ""]
    if found:
        meta = found[0]
        properties = [f"cluster.id={meta.cluster_id}"]
        properties += [f"directory.id={uuid_text(meta.directory_id)}"] if meta.directory_id is not None else []
        properties += [f"{'node.id' if meta.version else 'broker.id'}={meta.node_id}", f"version={meta.version}"]
        lines += [f"Found metadata: {{{', '.join(properties)}}}", ""]
    if problems:
        lines += [
            "Found problem:" if len(problems) == 1 else "Found problems:",
            *(f"  {each}" for each in problems),
            "",
        ]
    return lines
