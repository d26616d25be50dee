"""Formats a node's directories in two steps: a complete plan, then the writes, with meta.properties last.

The plan comes from the command line, the configuration and the present directories; an error in it is raised before any
change. A directory without meta.properties counts as not formatted, and may be formatted again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraft import Message, Uuid
from quorate.cli.failures import Failed, Misused
from quorate.cli.node_config import NodeConfig, VoterAddress
from quorate.cli.reading import check_regular
from quorate.cli.scram import parse_scram
from quorate.metadata.features import FEATURES, KRAFT_VERSION, default_levels
from quorate.metadata.versions import LATEST, METADATA_VERSION, OLDEST, SCRAM, level_of, record_version, release_of
from quorate.nouns import parse_uuid, reserved_uuid, uuid_text
from quorate.random_uuid import random_uuid
from quorate.records import (
    FeatureLevelRecord,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    UserScramCredentialRecord,
    VotersRecord,
    encode_record,
)
from quorate.storage.files import FILE_MODE, make_directory, sync_directory
from quorate.storage.lock import DirectoryLock, Locked
from quorate.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from quorate.storage.names import BOOTSTRAP, BOOTSTRAP_ID, PARTITION_DIRECTORY, segment_bases
from quorate.storage.snapshots import SnapshotWriter
from quorate.wire.batch import ControlType
from quorate.wire.codec import encode

__all__ = ["DirectoryPlan", "FormatOptions", "FormatPlan", "plan", "write"]

DEFAULT_RELEASE: Final = "4.3"
"""The release of a new cluster if none is given: the one that the interop tests run."""

IN_ONE_CHECKPOINT: Final = 31
"""The metadata.version from which bootstrap records go into the checkpoint with the first voters, as with Kafka 4.4's
formatter. Below it they go to bootstrap.checkpoint, which every release reads."""
DYNAMIC: Final = "one of --standalone, --initial-controllers and --no-initial-controllers"

_CLUSTER_ID: Final = re.compile(r"[!-\[\]-~]+")
_VOTER: Final = re.compile(r"([0-9]{1,10})@(\[[^\]]+\]|[^@:\[\]]+):([0-9]{1,5}):([^@:]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """The options of `quorate storage format`, as given on the command line."""

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
        """Whether the options ask for a dynamic quorum, whose voter set is in the log. KIP-853."""
        return self.standalone or self.no_initial_controllers or self.initial_controllers is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryPlan:
    """One log directory of a storage format, and its meta.properties: those to be written, or those it has already."""

    path: Path
    meta: MetaProperties
    is_metadata: bool
    is_formatted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatPlan:
    """The complete plan of a format; `voters` is None if no first voter set is written."""

    node: NodeConfig
    is_dynamic: bool
    metadata_version: int
    features: Mapping[str, int]
    scram: tuple[UserScramCredentialRecord, ...]
    voters: VotersRecord | None
    directories: tuple[DirectoryPlan, ...]

    @property
    def is_voter(self) -> bool:
        """Whether this node is one of the first voters."""
        return self.voters is not None and any(voter.voter_id == self.node.node_id for voter in self.voters.voters)

    @property
    def kraft_version(self) -> int:
        """The kraft.version: 1 if the voter set is in the log, 0 if it is configured (static). KIP-853."""
        return int(self.is_dynamic)

    @property
    def bootstrap(self) -> tuple[Message, ...]:
        """The cluster's bootstrap records: metadata.version, the other features by name, then the SCRAM users."""
        levels = [FeatureLevelRecord(METADATA_VERSION, self.metadata_version)]
        levels += [FeatureLevelRecord(name, level) for name, level in sorted(self.features.items()) if level]
        return (*levels, *self.scram)


def plan(asked: FormatOptions, node: NodeConfig) -> FormatPlan:
    """Plans a format and checks it; changes nothing. New directory ids are random.

    Raises Misused for the options, Failed for the configuration or the directories, Corrupt, OSError.
    """
    _check_cluster_id(asked.cluster_id)
    _check_quorum(asked, node)
    metadata_version, features = _levels(asked)
    scram = tuple(map(parse_scram, asked.scram))
    if scram and metadata_version < SCRAM:
        raise Misused(f"--add-scram needs metadata.version {release_of(SCRAM)}, this is {release_of(metadata_version)}")
    voters = _voters(asked, node)
    own = {voter.voter_id: voter.voter_directory_id for voter in voters.voters} if voters else {}
    found = FormatPlan(
        node=node,
        is_dynamic=_is_dynamic(asked, node),
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


def write(found: FormatPlan, *, timestamp_ms: int) -> None:
    """Formats the directories of a plan that are not formatted: the first records, and meta.properties last.

    `timestamp_ms` (since 1970) is that of the records. Raises Failed, before any file is written, if a directory is in
    use or was formatted meanwhile; OSError.
    """
    new = [each for each in found.directories if not each.is_formatted]
    with ExitStack() as locks:
        for directory in sorted(new, key=lambda each: not each.path.exists()):
            # By the SCRAM keys in a log passwords can be guessed. Kafka leaves the mode to the umask.
            make_directory(directory.path)
            try:
                locks.enter_context(DirectoryLock(directory.path))
            except Locked as locked:
                raise Failed(str(locked)) from None
            if read_meta_properties(directory.path) is not None:
                raise Failed(f"{directory.path} was formatted by somebody else just now")
        for directory in new:
            _write_directory(directory, found, timestamp_ms)


def _check_cluster_id(cluster_id: str) -> None:
    if not _CLUSTER_ID.fullmatch(cluster_id):
        raise Misused(f"--cluster-id is {cluster_id!r}; it is printable ASCII without blanks and \\, and not empty")


def _check_quorum(asked: FormatOptions, node: NodeConfig) -> None:
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


def _check_kraft_version(asked: FormatOptions, node: NodeConfig) -> None:
    level = dict(map(_feature, asked.features)).get(KRAFT_VERSION)
    dynamic = _is_dynamic(asked, node)
    if level is not None and dynamic is not (level > 0):
        kind = "in the log, which is level 1" if dynamic else "static, which is level 0"
        raise Failed(f"--feature {KRAFT_VERSION}={level}: the voters here are {kind}")


def _is_dynamic(asked: FormatOptions, node: NodeConfig) -> bool:
    return asked.is_dynamic and not node.has_static_voters


def _levels(asked: FormatOptions) -> tuple[int, dict[str, int]]:
    """Returns the metadata.version and the levels of the other features, without kraft.version. Raises Misused."""
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
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 5):
        raise Misused(f"--feature {text[:80]!r}: it is NAME=LEVEL, and the level a number")
    if name == METADATA_VERSION:
        lowest, highest = OLDEST, LATEST
    elif name in FEATURES:
        lowest, highest = 0, len(FEATURES[name].levels) - 1
    else:
        raise Misused(f"--feature {name!r} is not known; known are {', '.join(sorted({METADATA_VERSION, *FEATURES}))}")
    if not lowest <= int(digits) <= highest:
        raise Misused(f"--feature {name}={digits}: its levels are {lowest} to {highest}")
    return name, int(digits)


def _voters(asked: FormatOptions, node: NodeConfig) -> VotersRecord | None:
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
    if match is None or not 0 < int(match[3]) < 1 << 16 or int(match[1]) >= 1 << 31:
        rule = f"id 0 to {(1 << 31) - 1}, port 1 to 65535"
        raise Misused(f"--initial-controllers: {text!r} is not id@host:port:directory-id, {rule}")
    try:
        directory_id = parse_uuid(match[4])
    except ValueError as problem:
        raise Misused(f"--initial-controllers: {text!r}: {problem}") from None
    if reserved_uuid(directory_id):
        raise Misused(f"--initial-controllers: {text!r}: the first hundred directory ids are reserved (KIP-858)")
    endpoint = VoterAddress(listener=node.listener_name, host=match[2].strip("[]"), port=int(match[3]))
    return _voter(int(match[1]), directory_id, endpoint)


def _voter(node_id: int, directory_id: Uuid, endpoint: VoterAddress) -> VotersRecord.Voter:
    return VotersRecord.Voter(
        voter_id=node_id,
        voter_directory_id=directory_id,
        endpoints=(VotersRecord.Voter.Endpoint(endpoint.listener, endpoint.host, endpoint.port),),
        k_raft_version_feature=VotersRecord.Voter.KRaftVersionFeature(0, len(FEATURES[KRAFT_VERSION].levels) - 1),
    )


def _directory(path: Path, asked: FormatOptions, node: NodeConfig, directory_id: Uuid | None) -> DirectoryPlan:
    if path.is_dir():
        check_regular(path)
    found = read_meta_properties(path) if path.is_dir() else None
    if path.exists() and not path.is_dir():
        raise Failed(f"{path} is a file; a log directory is a directory")
    meta = found or MetaProperties(
        cluster_id=asked.cluster_id, node_id=node.node_id, directory_id=directory_id or random_uuid()
    )
    is_metadata = path == node.metadata_directory
    return DirectoryPlan(path=path, meta=meta, is_metadata=is_metadata, is_formatted=found is not None)


def _check_directories(found: FormatPlan, asked: FormatOptions) -> None:
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


def _write_directory(directory: DirectoryPlan, found: FormatPlan, timestamp_ms: int) -> None:
    records = [encode_record(each, record_version(each, found.metadata_version)) for each in found.bootstrap]
    in_one = found.metadata_version >= IN_ONE_CHECKPOINT
    if not in_one:
        _write_bootstrap(directory.path, records, timestamp_ms)
    if directory.is_metadata and (found.node.is_controller if in_one else found.voters is not None):
        partition = directory.path / PARTITION_DIRECTORY
        make_directory(partition)
        _write_first(partition, found, records if in_one else (), timestamp_ms)
    sync_directory(directory.path)
    write_meta_properties(directory.path, directory.meta)


def _write_bootstrap(directory: Path, records: Sequence[bytes], timestamp_ms: int) -> None:
    path = directory / BOOTSTRAP
    writer = SnapshotWriter(directory, BOOTSTRAP_ID, timestamp_ms=timestamp_ms, path=path)
    _write_checkpoint(writer, [(ControlType.SNAPSHOT_HEADER, encode(SnapshotHeaderRecord(), 0))], records)
    path.chmod(FILE_MODE)


def _write_first(partition: Path, found: FormatPlan, records: Sequence[bytes], timestamp_ms: int) -> None:
    """Writes the checkpoint at offset 0: the first voters (KIP-853), and the bootstrap records in `records`, if any."""
    header = SnapshotHeaderRecord(last_contained_log_timestamp=timestamp_ms)
    control = [(ControlType.SNAPSHOT_HEADER, encode(header, 0))]
    if found.kraft_version:
        version = KRaftVersionRecord(k_raft_version=found.kraft_version)
        control.append((ControlType.KRAFT_VERSION, encode(version, 0)))
    if found.voters is not None:
        control.append((ControlType.KRAFT_VOTERS, encode(found.voters, 0)))
    _write_checkpoint(SnapshotWriter(partition, BOOTSTRAP_ID, timestamp_ms=timestamp_ms), control, records)


def _write_checkpoint(
    writer: SnapshotWriter, control: Sequence[tuple[ControlType, bytes]], records: Sequence[bytes]
) -> None:
    try:
        writer.control(control)
        writer.data(records)
    except OSError:
        writer.abandon()
        raise
    writer.finish(encode(SnapshotFooterRecord(), 0))
