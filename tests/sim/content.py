"""What records, snapshots and quorum-state hold in this world: words instead of Kafka's bytes, with checksums."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from kraft import Uuid
from quorate.nouns import Epoch, OffsetAndEpoch, ReplicaKey
from quorate.raft import BatchInfo, ElectionState, LeaderChange, Voter, VoterSet
from quorate.raft.log import Entry
from quorate.raft.voters import ListenerEndpoint, VersionRange

Cell = tuple[Epoch, str]
"""One record: its epoch and its text. No two records that were ever written have one text, but for control records."""

BEGINNING = OffsetAndEpoch(epoch=0, offset=0)
EMPTY_IMAGE = b"\0" * 8

DECODED_MAX = 256
"""What the same bytes say is read once; a world has no more files at a time."""
IMAGES_MAX = 4_096
"""All nodes apply the same records, one soon after the other."""


class Damaged(Exception):
    """Bytes that do not check."""


def cells_of(batch: BatchInfo) -> list[Cell]:
    """One cell a record."""
    assert isinstance(batch.data, tuple), batch
    return [(batch.epoch, text) for text in batch.data]


def as_batch(entry: Entry) -> BatchInfo:
    """What the driver writes for `entry`: a text for each record of a control batch."""
    if isinstance(entry, BatchInfo):
        return entry
    change = entry.change if isinstance(entry, LeaderChange) else entry
    texts = [f"leader {entry.leader_id}"] if isinstance(entry, LeaderChange) else []
    if change is not None and change.kraft_version is not None:
        texts.append(f"kraft.version {change.kraft_version}")
    if change is not None:
        texts.append(f"voters {json.dumps(_voters_as_json(change.voters))}")
    return BatchInfo(
        base_offset=entry.base_offset,
        last_offset=entry.end_offset - 1,
        epoch=entry.epoch,
        size=100,
        data=tuple(texts),
        voters=None if change is None else change.voters,
        kraft_version=None if change is None else change.kraft_version,
    )


def image_after(image: bytes, cells: Iterable[Cell]) -> bytes:
    """The state after `cells`, as a chain of hashes: equal only if every record was applied, in order."""
    for epoch, text in cells:
        image = _image_with(image, epoch, text)
    return image


@lru_cache(maxsize=IMAGES_MAX)
def _image_with(image: bytes, epoch: Epoch, text: str) -> bytes:
    return hashlib.blake2b(b"%b%d %b" % (image, epoch, text.encode()), digest_size=8).digest()


@dataclass(frozen=True)
class Snapshot:
    """The state below `id.offset`, and what the header says of the quorum at kraft.version 1."""

    id: OffsetAndEpoch
    image: bytes
    voters: VoterSet | None = None
    kraft_version: int | None = None
    state: str = ""
    """What a simulation whose controllers have more than a hash keeps of it."""

    def encode(self) -> bytes:
        """With a checksum, and some length, so that it comes in pieces."""
        body = {
            "id": [self.id.epoch, self.id.offset],
            "image": self.image.hex(),
            "voters": None if self.voters is None else _voters_as_json(self.voters),
            "kraft_version": self.kraft_version,
            "state": self.state or "." * min(300, 10 + self.id.offset),
        }
        return sealed(body)

    @classmethod
    @lru_cache(maxsize=DECODED_MAX)
    def decode(cls, data: bytes) -> Snapshot:
        """Raises Damaged."""
        body = unsealed(data)
        assert isinstance(body, dict), body
        return cls(
            id=OffsetAndEpoch(epoch=body["id"][0], offset=body["id"][1]),
            image=bytes.fromhex(body["image"]),
            voters=None if body["voters"] is None else _voters_from_json(body["voters"]),
            kraft_version=body["kraft_version"],
            state=body["state"].lstrip("."),
        )


def encode_election(state: ElectionState) -> bytes:
    """Kafka's quorum-state with our checksum."""
    voted = None if state.voted is None else [state.voted.id, state.voted.directory_id.hex()]
    return sealed([state.epoch, state.leader_id, voted])


@lru_cache(maxsize=DECODED_MAX)
def decode_election(data: bytes) -> ElectionState:
    """Raises Damaged."""
    body = unsealed(data)
    assert isinstance(body, list), body
    epoch, leader_id, voted = body
    key = None if voted is None else ReplicaKey(voted[0], Uuid(bytes.fromhex(voted[1])))
    return ElectionState(epoch=epoch, leader_id=leader_id, voted=key)


def sealed(body: object) -> bytes:
    """JSON and its CRC."""
    text = json.dumps(body, separators=(",", ":")).encode()
    return b"%b %08x" % (text, zlib.crc32(text))


def unsealed(data: bytes) -> object:
    """What was sealed. Raises Damaged."""
    text, _, sum = data.rpartition(b" ")
    if sum != b"%08x" % zlib.crc32(text):
        raise Damaged(f"{len(data)} bytes with checksum {sum[:8]!r}")
    found: object = json.loads(text)
    return found


def _voters_as_json(voters: VoterSet) -> list[object]:
    return [
        [
            voter.key.id,
            voter.key.directory_id.hex(),
            [[each.name, each.host, each.port] for each in voter.endpoints],
            [voter.kraft_versions.lowest, voter.kraft_versions.highest],
        ]
        for voter in voters.voters
    ]


def _voters_from_json(rows: list[tuple[int, str, list[tuple[str, str, int]], tuple[int, int]]]) -> VoterSet:
    return VoterSet(
        tuple(
            Voter(
                key=ReplicaKey(id, Uuid(bytes.fromhex(disk))),
                endpoints=tuple(ListenerEndpoint(*endpoint) for endpoint in endpoints),
                kraft_versions=VersionRange(*versions),
            )
            for id, disk, endpoints, versions in rows
        )
    )
