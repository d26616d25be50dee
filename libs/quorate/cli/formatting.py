"""The first files of a node's directories: planned whole, then written, meta.properties last.

The plan is made from the command line, the configuration and what the directories say; it is refused before anything
is changed. Until a directory has its meta.properties it is not formatted, and may be formatted again.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraft import Message, Uuid
from quorate.cli.failures import Failed, Misused
from quorate.cli.node_config import Endpoint, NodeConfig
from quorate.cli.scram import parse_scram
from quorate.metadata.features import FEATURES, KRAFT_VERSION, default_levels
from quorate.metadata.versions import LATEST, METADATA_VERSION, OLDEST, SCRAM, level_of, record_version, release_of
from quorate.nouns import OffsetAndEpoch, parse_uuid, reserved_uuid, uuid_text
from quorate.records import (
    FeatureLevelRecord,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    UserScramCredentialRecord,
    VotersRecord,
    encode_record,
)
from quorate.storage.files import sync_directory
from quorate.storage.lock import DirectoryLock, Locked
from quorate.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from quorate.storage.names import BOOTSTRAP, PARTITION_DIRECTORY, segment_bases
from quorate.storage.snapshots import SnapshotWriter
from quorate.wire.batch import ControlType
from quorate.wire.codec import encode

__all__ = ["Asked", "DirectoryPlan", "Plan", "plan", "random_uuid", "write"]

DEFAULT_RELEASE: Final = "4.3"
"""What a new cluster gets that asks for nothing: the release that the interop tests run. Newer ones are asked for."""

FIRST: Final = OffsetAndEpoch(epoch=0, offset=0)
READABLE: Final = 0o644
DYNAMIC: Final = "one of --standalone, --initial-controllers and --no-initial-controllers"

_CLUSTER_ID: Final = re.compile(r"[!-\[\]-~]+")
_VOTER: Final = re.compile(r"(\d{1,9})@(\[[^\]]+\]|[^@:\[\]]+):(\d{1,5}):([^@:]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of `storage format`."""

    cluster_id: str
    standalone: bool = False
    initial_controllers: str | None = None
    no_initial_controllers: bool = False
    release_version: str | None = None
    features: tuple[str, ...] = ()
    scram: tuple[str, ...] = ()
    ignore_formatted: bool = False

    @property
    def is_dynamic(self) -> bool:
        """Is the quorum one whose voters are in the log? KIP-853."""
        return self.standalone or self.no_initial_controllers or self.initial_controllers is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryPlan:
    """One directory: what it will say, or says already."""

    path: Path
    meta: MetaProperties
    is_metadata: bool
    is_formatted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that will be written. `voters` is None where no first voter set is left in the directory."""

    node: NodeConfig
    metadata_version: int
    features: Mapping[str, int]
    scram: tuple[UserScramCredentialRecord, ...]
    voters: VotersRecord | None
    directories: tuple[DirectoryPlan, ...]

    @property
    def is_voter(self) -> bool:
        """Is this node among the first voters?"""
        return self.voters is not None and any(voter.voter_id == self.node.node_id for voter in self.voters.voters)

    @property
    def bootstrap(self) -> tuple[Message, ...]:
        """The records with which the cluster begins: metadata.version, the other features by name, users as given."""
        levels = [FeatureLevelRecord(METADATA_VERSION, self.metadata_version)]
        levels += [FeatureLevelRecord(name, level) for name, level in sorted(self.features.items()) if level]
        return (*levels, *self.scram)


def plan(asked: Asked, node: NodeConfig) -> Plan:
    """What would be written. Raises Misused, Failed, Corrupt or OSError; nothing is changed."""
    _check_cluster_id(asked.cluster_id)
    _check_quorum(asked, node)
    metadata_version, features = _levels(asked)
    scram = tuple(map(parse_scram, asked.scram))
    if scram and metadata_version < SCRAM:
        raise Misused(f"--add-scram needs metadata.version {release_of(SCRAM)}, this is {release_of(metadata_version)}")
    voters = _voters(asked, node)
    own = {voter.voter_id: voter.voter_directory_id for voter in voters.voters} if voters else {}
    found = Plan(
        node=node,
        metadata_version=metadata_version,
        features=features,
        scram=scram,
        voters=voters,
        directories=tuple(
            _directory(path, asked, node, own.get(node.node_id) if path == node.metadata_directory else None)
            for path in node.directories
        ),
    )
    _check_directories(found, asked)
    return found


def write(found: Plan, *, timestamp_ms: int) -> None:
    """Write what was planned. Raises Failed, and changes nothing, when a directory is in use; OSError."""
    new = [each for each in found.directories if not each.is_formatted]
    with ExitStack() as locks:
        for directory in sorted(new, key=lambda each: not each.path.exists()):
            directory.path.mkdir(parents=True, exist_ok=True)
            try:
                locks.enter_context(DirectoryLock(directory.path))
            except Locked as locked:
                raise Failed(str(locked)) from None
            if read_meta_properties(directory.path) is not None:
                raise Failed(f"{directory.path} was formatted by somebody else just now")
        for directory in new:
            _write_directory(directory, found, timestamp_ms)


def random_uuid() -> Uuid:
    """An id as Kafka makes them: random, version 4, never a reserved one, its text not an option's beginning."""
    while True:
        raw = bytearray(secrets.token_bytes(16))
        raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80
        uuid = Uuid(bytes(raw))
        if not reserved_uuid(uuid) and not uuid_text(uuid).startswith("-"):
            return uuid


def _check_cluster_id(cluster_id: str) -> None:
    if not _CLUSTER_ID.fullmatch(cluster_id):
        raise Misused(f"--cluster-id is {cluster_id!r}; it is printable ASCII without blanks and \\, and not empty")


def _check_quorum(asked: Asked, node: NodeConfig) -> None:
    given = [asked.standalone, asked.initial_controllers is not None, asked.no_initial_controllers]
    if sum(given) > 1:
        raise Misused(f"{DYNAMIC} is given, not {sum(given)} of them")
    if node.has_static_voters and (asked.standalone or asked.initial_controllers is not None):
        raise Failed(
            f"{node.path}: controller.quorum.voters is set, which makes the voters static, and --standalone or "
            "--initial-controllers makes them dynamic: set controller.quorum.bootstrap.servers instead"
        )
    if asked.standalone and not node.is_controller:
        raise Failed(f"{node.path}: process.roles has no controller; --standalone makes a controller the whole quorum")
    if node.is_controller and not node.has_static_voters and not asked.is_dynamic:
        raise Failed(f"{node.path}: controller.quorum.voters is not set on this controller; then {DYNAMIC} is needed")
    _check_kraft_version(asked, node)


def _check_kraft_version(asked: Asked, node: NodeConfig) -> None:
    level = dict(map(_feature, asked.features)).get(KRAFT_VERSION)
    dynamic = asked.is_dynamic and not node.has_static_voters
    if level is not None and dynamic is not (level > 0):
        kind = "in the log, which is level 1" if dynamic else "static, which is level 0"
        raise Failed(f"--feature {KRAFT_VERSION}={level}: the voters here are {kind}")


def _levels(asked: Asked) -> tuple[int, dict[str, int]]:
    """metadata.version, and the others that are on or were asked for, without kraft.version: that is the quorum's."""
    wanted = dict(map(_feature, asked.features))
    if asked.release_version is not None and METADATA_VERSION in wanted:
        raise Misused(
            f"--release-version {asked.release_version} and --feature {METADATA_VERSION}: one of them is enough"
        )
    try:
        level = wanted.pop(METADATA_VERSION, None) or level_of(asked.release_version or DEFAULT_RELEASE)
    except ValueError as problem:
        raise Misused(f"--release-version: {problem}") from None
    levels = {**default_levels(level), **wanted}
    levels.pop(KRAFT_VERSION, None)
    for name, chosen in levels.items():
        _check_needs(name, chosen, {**levels, METADATA_VERSION: level})
    return level, levels


def _check_needs(name: str, level: int, levels: Mapping[str, int]) -> None:
    needed = FEATURES[name].needs.get(level)
    if needed is not None and levels.get(needed[0], 0) < needed[1]:
        other, least = needed
        raise Misused(f"--feature {name}={level} needs {other} at {least} or above; it is {levels.get(other, 0)}")


def _feature(text: str) -> tuple[str, int]:
    name, _, digits = text.partition("=")
    if not digits.isdecimal():
        raise Misused(f"--feature {text!r}: it is NAME=LEVEL, and the level a number")
    if name == METADATA_VERSION:
        lowest, highest = OLDEST, LATEST
    elif name in FEATURES:
        lowest, highest = 0, len(FEATURES[name].levels) - 1
    else:
        raise Misused(f"--feature {name!r} is not known; known are {', '.join(sorted({METADATA_VERSION, *FEATURES}))}")
    if not lowest <= int(digits) <= highest:
        raise Misused(f"--feature {name}={digits}: its levels are {lowest} to {highest}")
    return name, int(digits)


def _voters(asked: Asked, node: NodeConfig) -> VotersRecord | None:
    if asked.standalone:
        return VotersRecord(voters=(_voter(node.node_id, random_uuid(), node.own_endpoint()),))
    if asked.initial_controllers is None:
        return None
    voters = [_parse_voter(part.strip(), node) for part in asked.initial_controllers.split(",") if part.strip()]
    if not voters:
        raise Misused("--initial-controllers names nobody; it is id@host:port:directory-id, …")
    for what, values in (
        ("id", [str(voter.voter_id) for voter in voters]),
        ("directory id", [uuid_text(voter.voter_directory_id) for voter in voters]),
    ):
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise Misused(f"--initial-controllers: {what} {twice} is there more than once; each voter has its own")
    return VotersRecord(voters=tuple(sorted(voters, key=lambda voter: voter.voter_id)))


def _parse_voter(text: str, node: NodeConfig) -> VotersRecord.Voter:
    match = _VOTER.fullmatch(text)
    if match is None or not 0 < int(match[3]) < 1 << 16:
        raise Misused(f"--initial-controllers: {text!r} is not id@host:port:directory-id, port 1 to 65535")
    try:
        directory_id = parse_uuid(match[4])
    except ValueError as problem:
        raise Misused(f"--initial-controllers: {text!r}: {problem}") from None
    if reserved_uuid(directory_id):
        raise Misused(f"--initial-controllers: {text!r}: the first hundred directory ids are reserved (KIP-858)")
    endpoint = Endpoint(listener=node.listener_name, host=match[2].strip("[]"), port=int(match[3]))
    return _voter(int(match[1]), directory_id, endpoint)


def _voter(node_id: int, directory_id: Uuid, endpoint: Endpoint) -> VotersRecord.Voter:
    return VotersRecord.Voter(
        voter_id=node_id,
        voter_directory_id=directory_id,
        endpoints=(VotersRecord.Voter.Endpoint(endpoint.listener, endpoint.host, endpoint.port),),
        k_raft_version_feature=VotersRecord.Voter.KRaftVersionFeature(0, len(FEATURES[KRAFT_VERSION].levels) - 1),
    )


def _directory(path: Path, asked: Asked, node: NodeConfig, directory_id: Uuid | None) -> DirectoryPlan:
    found = read_meta_properties(path) if path.is_dir() else None
    if path.exists() and not path.is_dir():
        raise Failed(f"{path} is a file; a log directory is a directory")
    meta = found or MetaProperties(
        cluster_id=asked.cluster_id, node_id=node.node_id, directory_id=directory_id or random_uuid()
    )
    is_metadata = path == node.metadata_directory
    return DirectoryPlan(path=path, meta=meta, is_metadata=is_metadata, is_formatted=found is not None)


def _check_directories(found: Plan, asked: Asked) -> None:
    formatted = [each for each in found.directories if each.is_formatted]
    if formatted and not asked.ignore_formatted:
        rule = "--ignore-formatted passes over it and formats the others"
        raise Failed(f"{formatted[0].path} is already formatted; {rule}")
    for each in formatted:
        for what, has, wanted in (
            ("cluster", each.meta.cluster_id, asked.cluster_id),
            ("node", str(each.meta.node_id), str(found.node.node_id)),
        ):
            if has != wanted:
                raise Failed(
                    f"{each.path} belongs to {what} {has}, and {what} {wanted} is asked for; nothing is changed"
                )
    for each in found.directories:
        partition = each.path / PARTITION_DIRECTORY
        if not each.is_formatted and partition.is_dir() and _has_log(partition):
            raise Failed(
                f"{partition} holds a log, and {each.path} has no meta.properties: "
                "a new format would give an old log to a new cluster; put meta.properties back, or empty the directory"
            )


def _has_log(partition: Path) -> bool:
    return any((partition / f"{base:020d}.log").stat().st_size for base in segment_bases(partition))


def _write_directory(directory: DirectoryPlan, found: Plan, timestamp_ms: int) -> None:
    _write_bootstrap(directory.path, found.bootstrap, found.metadata_version, timestamp_ms)
    if directory.is_metadata and found.voters is not None:
        partition = directory.path / PARTITION_DIRECTORY
        partition.mkdir(exist_ok=True)
        _write_voters(partition, found.voters, timestamp_ms)
    sync_directory(directory.path)
    write_meta_properties(directory.path, directory.meta)


def _write_bootstrap(directory: Path, records: Sequence[Message], metadata_version: int, timestamp_ms: int) -> None:
    path = directory / BOOTSTRAP
    writer = SnapshotWriter(directory, FIRST, timestamp_ms=timestamp_ms, path=path)
    try:
        writer.control([(ControlType.SNAPSHOT_HEADER, encode(SnapshotHeaderRecord(), 0))])
        writer.data(encode_record(record, record_version(record, metadata_version)) for record in records)
    except OSError:
        writer.abandon()
        raise
    writer.finish(encode(SnapshotFooterRecord(), 0))
    path.chmod(READABLE)  # Kafka's is readable by all; only checkpoints of the log are not


def _write_voters(partition: Path, voters: VotersRecord, timestamp_ms: int) -> None:
    """The checkpoint at offset 0: the voters before there is a log (KIP-853)."""
    writer = SnapshotWriter(partition, FIRST, timestamp_ms=timestamp_ms)
    header = SnapshotHeaderRecord(last_contained_log_timestamp=timestamp_ms)
    try:
        writer.control(
            [
                (ControlType.SNAPSHOT_HEADER, encode(header, 0)),
                (ControlType.KRAFT_VERSION, encode(KRaftVersionRecord(k_raft_version=1), 0)),
                (ControlType.KRAFT_VOTERS, encode(voters, 0)),
            ]
        )
    except OSError:
        writer.abandon()
        raise
    writer.finish(encode(SnapshotFooterRecord(), 0))
