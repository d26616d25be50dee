"""COMMIT: the quorum protocol of KIP-595, KIP-996, KIP-630 and KIP-853, without I/O.

A driver tells a `Raft` of messages and of time, and does what `Raft.ready` asks, in order. The only voter of a
quorum leads at once, and its record is committed when it is flushed:

>>> from random import Random
>>> from quorate.nouns import ReplicaKey
>>> from quorate.raft import Batch, LogView, Raft, VoterHistory, VoterSet
>>> log = LogView(voters=VoterHistory(VoterSet.of(1)))
>>> raft = Raft(node=ReplicaKey(1), cluster_id="c", log=log, election=None, random=Random(1), now_ms=0)
>>> def drive(raft, now_ms):
...     ready = raft.ready()
...     # persist ready.election; truncate, install, append and write the chunk; send; flush:
...     raft.flushed(raft.log.leo, now_ms)
...     return ready
>>> ready = drive(raft, 0)
>>> ready.election
ElectionState(epoch=1, leader_id=1, voted=ReplicaKey(id=1, directory_id=b'...'))
>>> [type(batch).__name__ for batch in ready.append]
['LeaderChange']
>>> raft.append([Batch(base_offset=1, last_offset=1, epoch=1)], 0)
>>> drive(raft, 0).high_watermark, drive(raft, 0).high_watermark
(1, 2)
"""

from quorate.raft.core import Raft
from quorate.raft.history import History
from quorate.raft.log import Batch, Entry, LeaderChange, LogView, VotersChange
from quorate.raft.progress import Quorum, ReplicaState
from quorate.raft.ready import Leadership, Ready, Refusal, Send, SnapshotChunk, Transition, Upgrade
from quorate.raft.roles import ElectionState
from quorate.raft.settings import Settings
from quorate.raft.voters import Endpoint, VersionRange, Voter, VoterHistory, VoterSet

__all__ = [
    "Batch",
    "ElectionState",
    "Endpoint",
    "Entry",
    "History",
    "LeaderChange",
    "Leadership",
    "LogView",
    "Quorum",
    "Raft",
    "Ready",
    "Refusal",
    "ReplicaState",
    "Send",
    "Settings",
    "SnapshotChunk",
    "Transition",
    "Upgrade",
    "VersionRange",
    "Voter",
    "VoterHistory",
    "VoterSet",
    "VotersChange",
]
