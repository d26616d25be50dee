"""Voters come and go at random, under crashes, cuts and stuck disks; then all is healed and the quorum goes on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import pytest

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset, ReplicaKey
from quorate.raft import Ready, VoterSet
from quorate.raft.messages import AddRaftVoterResponse, RemoveRaftVoterResponse
from quorate.raft.roles import Leader, Resigned
from tests.raft.cluster import Node, Record
from tests.raft.scenario import Script
from tests.raft.telling import DISKS

SEEDS = 60
ACTIONS = 90
IDS_MAX = 6


@dataclass
class Story:
    """One seed's run, and what a bystander who sees everything knows."""

    seed: int
    random: Random = field(init=False)
    script: Script = field(default_factory=Script)
    committed: list[Record] = field(default_factory=list)
    leaders: dict[Epoch, ReplicaKey] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    disks: dict[NodeId, str] = field(default_factory=dict)
    wiped: dict[NodeId, ReplicaKey] = field(default_factory=dict)
    """The key that each node had before it lost its disk."""

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.count = self.random.choice([1, 2, 3, 3, 4])
        self.disks = dict.fromkeys(range(1, self.count + 1), "a")
        self.script.judge = self.judge

    def run(self) -> None:
        voters = ",".join(map(str, self.disks))
        self.play(f"format kraft=1 voters={voters}")
        self.play("advance 2500")
        for _ in range(ACTIONS):
            self.act()
        self.heal()

    def play(self, command: str) -> None:
        self.script.run(command)
        for line in self.script.take_output():
            if "→ admin" in line:
                kind = "add" if AddRaftVoterResponse.__name__ in line else "remove"
                assert kind == "add" or RemoveRaftVoterResponse.__name__ in line, line
                self.done[f"{kind} {'done' if 'done' in line else line.split()[5]}"] += 1

    # What happens.

    def act(self) -> None:
        actions = [
            (30, self.append),
            (20, self.advance),
            (20, self.add),
            (10, self.remove),
            (8, self.cut),
            (10, self.mend),
            (6, self.crash),
            (10, self.restart),
            (4, self.stick),
            (6, self.unstick),
            (5, self.newcomer),
            (2, self.resign),
            (4, self.wipe),
        ]
        weights = [weight for weight, _ in actions]
        self.random.choices([action for _, action in actions], weights)[0]()

    def up(self) -> list[Node]:
        return [node for node in self.script.nodes.values() if node.raft is not None]

    def leading(self) -> Node | None:
        """A leader; the latest one, but sometimes one that does not know yet that it leads no more."""
        found = [node for node in self.up() if isinstance(node.core.role, Leader)]
        found.sort(key=lambda node: node.core.role.epoch)
        return None if not found else found[-1] if self.random.randrange(4) else self.random.choice(found)

    def append(self) -> None:
        if (leader := self.leading()) is not None:
            self.play(f"append {leader.id} v{self.random.randrange(1_000)}")

    def advance(self) -> None:
        self.play(f"advance {self.random.choice([1, 20, 400, 1_100, 2_500])}")

    def add(self) -> None:
        leader = self.leading()
        if leader is None:
            return
        voters = leader.core.log.voters.latest
        others = [node for node in self.script.nodes.values() if not voters.has(node.key)]
        others = [node for node in others if node.raft is not None and node.id not in self.script.cut] or others
        if self.random.randrange(8) == 0:
            others = list(self.script.nodes.values())
        if others:
            target = self.random.choice(others).id
            early = self.random.choice(["", " early"])
            self.play(
                f"add {leader.id} {target}{self.disks[target]} timeout={self.random.choice([10, 3_000, 3_000])}{early}"
            )

    def remove(self) -> None:
        leader = self.leading()
        if leader is not None:
            # While one is lost, the others are needed.
            key = self.lost_voter() or self.random.choice(leader.core.log.voters.latest.keys)
            letter = next(letter for letter, disk in DISKS.items() if disk == key.directory_id)
            self.play(f"remove {leader.id} {key.id}{letter}")

    def cut(self) -> None:
        self.play(f"cut {self.random.choice(list(self.script.nodes))}")

    def mend(self) -> None:
        self.play("heal")

    def crash(self) -> None:
        if up := self.up():
            self.play(f"crash {self.random.choice(up).id}")

    def restart(self) -> None:
        down = [node for node in self.script.nodes.values() if node.raft is None]
        if down:
            self.play(f"restart {self.random.choice(down).id}")

    def stick(self) -> None:
        if up := self.up():
            self.play(f"hold {self.random.choice(up).id}")

    def unstick(self) -> None:
        if self.script.held:
            self.play(f"flush {self.random.choice(sorted(self.script.held))}")

    def newcomer(self) -> None:
        id = len(self.script.nodes) + 1
        if id <= IDS_MAX:
            self.disks[id] = "a"
            joins = self.random.choice(["", " joins"])
            self.play(f"newcomer {id}a{joins}")

    def resign(self) -> None:
        if (leader := self.leading()) is not None:
            self.play(f"resign {leader.id}")

    def wipe(self) -> None:
        """Somebody's disk is lost: an observer's, or the only one of three or more voters on whose set all agree."""
        down = [node for node in self.script.nodes.values() if node.raft is None]
        if not down or self.lost_voter() is not None:
            return
        node = self.random.choice(down)
        sets = self.sets()
        is_free = not any(voters.has(node.key) for voters in sets)
        if node.id in self.wiped or (not is_free and (len(set(sets)) > 1 or len(sets[0].keys) < 3)):
            return
        self.wiped[node.id] = node.key
        self.disks[node.id] = chr(ord(self.disks[node.id]) + 1)
        self.done["wipe"] += 1
        self.play(f"wipe {node.id}{self.disks[node.id]} joins")

    def lost_voter(self) -> ReplicaKey | None:
        """A voter of whom only the key is left."""
        return next((key for key in self.wiped.values() for voters in self.sets() if key in voters.keys), None)

    # What must hold.

    def sets(self) -> list[VoterSet]:
        """The voter set in force on each disk that has one."""
        views = [node.disk.view(node.voters, node.kraft_version) for node in self.script.nodes.values()]
        return [view.voters.latest for view in views if view.voters.latest.voters]

    def judge(self, node: Node, ready: Ready) -> None:
        """Everything that one node has just done, before anybody learns of it."""
        role, log = node.core.role, node.core.log
        if isinstance(role, Leader):
            first = self.leaders.setdefault(role.epoch, node.key)
            assert first == node.key, ("I-01", role.epoch, first, node.key)
        # A leader that has committed its own removal has resigned by now.
        if isinstance(role, Leader | Resigned) and log.high_watermark > len(self.committed):
            self.commit(node, log.high_watermark)
        assert log.high_watermark <= len(self.committed), ("I-20", node.id, log.high_watermark)
        held = node.disk.records(below=log.high_watermark)
        assert self.committed[: len(held)] == held, ("I-21", node.id, log.high_watermark)
        sets = [voters for _, voters in log.voters.changes]
        for before, after in pairwise(sets):
            assert len(set(before.keys) ^ set(after.keys)) <= 1, ("I-30", before.keys, after.keys)

    def commit(self, leader: Node, end: Offset) -> None:
        rows = leader.disk.records(below=end)
        assert rows[: len(self.committed)] == self.committed, ("I-12", leader.id, rows, self.committed)
        self.committed = rows
        voters = leader.core.log.voters.latest
        holders = [
            node.key
            for node in self.script.nodes.values()
            if voters.has(node.key) and node.disk.flushed >= end and node.disk.records(below=end) == rows
        ]
        assert 2 * len(holders) > len(voters.keys), ("I-18", leader.id, end, holders, voters.keys)

    def heal(self) -> None:
        """Everybody is up and hears everybody: the last voter set elects a leader, which commits something new."""
        for command in ["heal", *(f"flush {id}" for id in sorted(self.script.held))]:
            self.play(command)
        for node in list(self.script.nodes.values()):
            if node.raft is None:
                self.play(f"restart {node.id}")
        for _ in range(30):
            self.play("advance 500")
        leaders = [node for node in self.up() if isinstance(node.core.role, Leader)]
        assert len(leaders) == 1, ("I-69", self.seed, [node.core.role for node in self.up()])
        before = len(self.committed)
        self.play(f"append {leaders[0].id} last")
        self.play("advance 3000")
        assert len(self.committed) > before, ("I-69", self.seed, before)
        ends = {node.id: node.core.log.last for node in self.up()}
        assert {leaders[0].core.log.last} == set(ends.values()), ("I-70", self.seed, ends)
        self.done["voters changed"] += len(leaders[0].core.log.voters.changes) > 1


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_voters_change_and_nothing_committed_is_lost(first: int) -> None:
    done: Counter[str] = Counter()
    for seed in range(first, first + 10):
        story = Story(seed)
        story.run()
        done += story.done

    # Enough has happened for this to mean something.
    assert done["add done"] >= 5, done
    assert done["remove done"] >= 5, done
    assert done["wipe"] >= 1, done
    assert done[f"add {ErrorCode.REQUEST_TIMED_OUT.name}"] >= 5, done
    assert done[f"remove {ErrorCode.REQUEST_TIMED_OUT.name}"] >= 1, done
