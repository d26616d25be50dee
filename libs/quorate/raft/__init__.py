"""COMMIT: the quorum protocol, Raft with pull replication (KIP-595, KIP-996, KIP-630, KIP-853), without I/O.

core, ready, step_context, matrix             one step: inputs, effects, context, and the protocol as a table
messages, flaws, fencing                      messages, checks of their form, epoch fencing
roles, role_entry                             the six roles, and how each is entered
log, history, voters                          the log without bytes, values by offset, voter sets
voting, quorum_epoch, quorum                  elections, the leader's epoch, majority arithmetic
following, serving, reading, parked_fetches   pull replication, snapshots, long poll
progress                                      each replica's log end, and the high watermark
follower_fetch, read_index                    reads of observers, linearizable reads
membership, membership_faults                 voter changes, and what refuses them
joining, walking, target_voters               auto-join, and the steps to a target of the voter set
leadership_transfer, presence                 leadership transfer, controller presence
requests, settings, invariants                requests in flight, limits, what holds after every step

A driver gives a `Raft` messages and the time, and carries out the effects of `Raft.ready` in order. The only voter of
a quorum leads at once, and its record is committed once it is flushed:

>>> from random import Random
>>> from quorate.nouns import ReplicaKey
>>> from quorate.raft import BatchInfo, LogView, Raft, VoterHistory, VoterSet
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
>>> raft.append([BatchInfo(base_offset=1, last_offset=1, epoch=1)], 0)
>>> drive(raft, 0).high_watermark, drive(raft, 0).high_watermark
(1, 2)
"""

from quorate.raft.core import Raft
from quorate.raft.history import History
from quorate.raft.log import BatchInfo, Entry, LeaderChange, LogView, VotersChange
from quorate.raft.progress import QuorumDescription, ReplicaState
from quorate.raft.ready import Leadership, Ready, Refusal, RoleTransition, Send, SnapshotChunk, Upgrade
from quorate.raft.roles import ElectionState
from quorate.raft.settings import RaftSettings
from quorate.raft.step_context import Presence
from quorate.raft.voters import ListenerEndpoint, VersionRange, Voter, VoterHistory, VoterSet

__all__ = [
    "BatchInfo",
    "ElectionState",
    "Entry",
    "History",
    "LeaderChange",
    "Leadership",
    "ListenerEndpoint",
    "LogView",
    "Presence",
    "QuorumDescription",
    "Raft",
    "RaftSettings",
    "Ready",
    "Refusal",
    "ReplicaState",
    "RoleTransition",
    "Send",
    "SnapshotChunk",
    "Upgrade",
    "VersionRange",
    "Voter",
    "VoterHistory",
    "VoterSet",
    "VotersChange",
]
