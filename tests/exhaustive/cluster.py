"""The whole cluster as one state, what can happen in it, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, permutations
from typing import TypeAlias

from quorate.nouns import NodeId
from quorate.raft import VoterSet
from tests.exhaustive import laws, steps
from tests.exhaustive.bounds import Bounds
from tests.exhaustive.frozen import FIRST_ID, Renaming, Value
from tests.exhaustive.node import Setting, Slot
from tests.exhaustive.steps import Action
from tests.exhaustive.table import Move, Number, Past, Table

State: TypeAlias = tuple[tuple[Number, ...], tuple[Number, ...], tuple[int, ...], Number]
"""Nodes by id; messages on the wire, sorted; what may still happen (`BUDGETS`); the past."""
Event: TypeAlias = tuple[NodeId, Action, Value]
"""At which node; what; and the message, if it is one that arrives."""

BUDGETS = ("appends", "crashes", "resigns", "adds", "removes", "duplicates")
APPENDS, CRASHES, RESIGNS, ADDS, REMOVES, DUPLICATES = range(len(BUDGETS))
RESIGN: Action = ("timer", "check_quorum_deadline_ms")


ACKNOWLEDGEMENTS = frozenset({"BeginQuorumEpochResponse", "EndQuorumEpochResponse"})
PROBES = frozenset({"ApiVersionsRequest", "ApiVersionsResponse"})


class Cluster:
    """Knows the events of each state, and the state after each."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.ids = tuple(range(FIRST_ID, FIRST_ID + bounds.voters + bounds.adds))
        renamings = _renamings(self.ids[: bounds.voters], self.ids[bounds.voters :])
        setting = _setting(bounds, self.ids)
        self.table = Table(setting, renamings)
        self.laws = laws.Laws(self.table)
        self._prompt = ACKNOWLEDGEMENTS | PROBES if bounds.is_prompt else ACKNOWLEDGEMENTS
        self.cut_by_epochs = 0
        self.trying: Event | None = None
        """What is being done: what broke a law, if one breaks."""
        self._own: dict[Number, tuple[Action, ...]] = {}
        self._groups = (range(bounds.voters), range(bounds.voters, len(self.ids)))
        self._at = {self._order(names): at for at, names in enumerate(renamings)}
        self._rank: dict[Number, Number] = {}

    def _order(self, names: Renaming) -> tuple[int, ...]:
        """Which node comes to stand at each place."""
        back = {new: old for old, new in names.items()}
        return tuple(back[id] - FIRST_ID for id in self.ids)

    def first(self) -> State:
        """All nodes have started with empty disks."""
        moves = []
        for id in self.ids:
            setting = self.table.setting
            # An observer may ask any voter first; these are all alike yet, so one of the ways stands for all.
            outcome = next(steps.first(setting, steps.key_of(setting, id)))
            moves.append(self.table.move(outcome))
        wire = {letter for move in moves for letter in move.requests}
        budgets = tuple(getattr(self.bounds, name) for name in BUDGETS)
        past = self.table.pasts.of(Past())
        return tuple(move.local for move in moves), tuple(sorted(wire)), budgets, past

    # What can happen.

    def events(self, state: State) -> Iterator[tuple[Event, State]]:
        """Every event of `state`, with the state that comes of it."""
        nodes, wire, budgets, _ = state
        letters = self.table.letters.values
        for number in wire:
            letter = letters[number]
            at = letter.to - FIRST_ID
            action = self.table.take(letter)
            self.trying = FIRST_ID + at, action, None
            for move in self.table.moves(nodes[at], action):
                yield from self._after(state, at, action, move, number, budgets)
                if budgets[DUPLICATES] and letter.is_request:
                    less = _spent(budgets, DUPLICATES)
                    yield from self._after(state, at, ("twice", *action), move, None, less)
        for at, local in enumerate(nodes):
            for action in self._own_actions(local):
                less = budgets
                if action == RESIGN:
                    if not budgets[RESIGNS]:
                        continue
                    less = _spent(budgets, RESIGNS)
                self.trying = FIRST_ID + at, action, None
                for move in self.table.moves(local, action):
                    if not (move.local == local and self._changes_no_wire(move, wire)):
                        yield from self._after(state, at, action, move, None, less)
            for action, less in self._outer_actions(local, budgets):
                self.trying = FIRST_ID + at, action, None
                for move in self.table.moves(local, action):
                    if move.local == local and action[0] in ("add", "remove"):
                        continue  # it was refused
                    yield from self._after(state, at, action, move, None, less)

    def _changes_no_wire(self, move: Move, wire: tuple[Number, ...]) -> bool:
        """Is all that is sent on the wire already? Then only a second copy of an answer could make a difference."""
        return not self.bounds.duplicates and not move.answers and all(number in wire for number in move.requests)

    def _own_actions(self, local: Number) -> tuple[Action, ...]:
        known = self._own.get(local)
        if known is None:
            actions = self.table.view(local).actions
            if self.bounds.is_lean:
                actions = tuple(action for action in actions if action[0] not in ("held", "change late"))
            known = self._own[local] = actions
        return known

    def _outer_actions(self, local: Number, budgets: tuple[int, ...]) -> Iterator[tuple[Action, tuple[int, ...]]]:
        """What clients, operators and fate may do to a node."""
        view = self.table.view(local)
        if budgets[CRASHES]:
            less = _spent(budgets, CRASHES)
            for kept in view.ends:
                yield ("crash", kept), less
        if view.role != "Leader":
            return
        if budgets[APPENDS]:
            yield ("append",), _spent(budgets, APPENDS)
        voters = {key.id for key in view.voters}
        if budgets[ADDS]:
            for id in self.ids:
                if id not in voters:
                    yield ("add", id), _spent(budgets, ADDS)
        if budgets[REMOVES]:
            for id in sorted(voters):
                yield ("remove", id), _spent(budgets, REMOVES)

    # What comes of it.

    def _after(
        self, state: State, at: int, action: Action, move: Move, taken: Number | None, budgets: tuple[int, ...]
    ) -> Iterator[tuple[Event, State]]:
        if move.outcome.view.epoch > self.bounds.epochs:
            self.cut_by_epochs += 1
            return
        before, wire, _, past = state
        nodes = list(before)
        nodes[at] = move.local
        carried = set(wire)
        if taken is not None:
            carried.discard(taken)
        id = FIRST_ID + at
        if move.lost:
            self._lose(nodes, carried, id, move.lost)
        carried.update(move.requests)
        carried.update(number for _, number in move.answers)
        carried = self._sorted_out(nodes, carried)
        past = self.laws.past_after(past, before, at, move, nodes)
        after = tuple(nodes), tuple(sorted(carried)), budgets, past
        for settled in self._settled(after) if self.bounds.is_lean else (after,):
            yield (id, action, taken), settled

    def _settled(self, state: State) -> Iterator[State]:
        """`state` once acknowledgements have come and, if no crash can come any more, everything is flushed."""
        nodes, wire, budgets, _ = state
        for number in wire:
            letter = self.table.letters.values[number]
            if letter.name in self._prompt or (self.bounds.is_prompt and letter.is_empty_fetch):
                at = letter.to - FIRST_ID
                for taken in self.table.moves(nodes[at], self.table.take(letter)):
                    for _, after in self._after(state, at, ("flush",), taken, number, budgets):
                        yield after
                return
        if not budgets[CRASHES]:
            for at, local in enumerate(nodes):
                if ("flush",) in self._own_actions(local):
                    for flushed in self.table.moves(local, ("flush",)):
                        for _, after in self._after(state, at, ("flush",), flushed, None, budgets):
                            yield after
                    return
        yield state

    def _lose(self, nodes: list[Number], carried: set[Number], asker: NodeId, slots: tuple[Slot, ...]) -> None:
        """`asker` no longer waits for answers in `slots`."""
        letters = self.table.letters.values
        for number in list(carried):
            letter = letters[number]
            if letter.is_request:
                if letter.is_waited_for and letter.sender == asker and (letter.to, letter.is_of_voters) in slots:
                    carried.discard(number)
                    carried.add(self.table.given_up(number))
            elif letter.to == asker and (letter.sender, letter.is_of_voters) in slots:
                carried.discard(number)
        for peer, is_of_voters in slots:
            at = peer - FIRST_ID
            nodes[at] = self.table.forget(nodes[at], (asker, is_of_voters))

    def _sorted_out(self, nodes: list[Number], carried: set[Number]) -> set[Number]:
        """Without what can change nothing any more, and without second copies."""
        table, letters = self.table, self.table.letters.values
        kept: set[Number] = set()
        stale: list[Number] = []
        for number in carried:
            letter = letters[number]
            if letter.is_waited_for:
                if letter.is_request or not table.is_like_loss(number, nodes[letter.to - FIRST_ID]):
                    kept.add(number)
            elif not table.is_dead(number, nodes[letter.to - FIRST_ID]):
                stale.append(number)
        if stale:
            stale = sorted(number for number in stale if table.waited_for(number) not in kept)
            kept.update(stale[: self.bounds.stale])
        return kept

    # Symmetry.

    def canonical(self, state: State) -> State:
        """The same for all states that differ only in the names of nodes."""
        nodes, wire, budgets, past = state
        ranks = [self._rank_of(local) for local in nodes]
        best: State | None = None
        for order in self._orders(ranks):
            at = self._at[order]
            if not at:
                found = state
            else:
                table = self.table
                found = (
                    tuple([table.renamed(nodes[place])[at] for place in order]),
                    tuple(sorted([table.renamed_letter(number)[at] for number in wire])),
                    budgets,
                    table.renamed_past(past)[at],
                )
            if best is None or found < best:
                best = found
        assert best is not None
        return best

    def _rank_of(self, local: Number) -> Number:
        rank = self._rank.get(local)
        if rank is None:
            rank = self._rank[local] = min(self.table.renamed(local))
        return rank

    def _orders(self, ranks: list[Number]) -> Iterator[tuple[int, ...]]:
        """Every order of the nodes in which the ranks of exchangeable ones do not fall."""
        if len(set(ranks)) == len(ranks):
            yield tuple(place for group in self._groups for place in sorted(group, key=ranks.__getitem__))
            return
        ordered = [
            [order for order in permutations(group) if _rises([ranks[place] for place in order])]
            for group in self._groups
        ]
        for voters in ordered[0]:
            for others in ordered[1]:
                yield voters + others


def _setting(bounds: Bounds, ids: tuple[NodeId, ...]) -> Setting:
    setting = Setting(
        base=VoterSet(()),
        kraft_version=1 if bounds.adds or bounds.removes else 0,
        is_pre_vote_free=bounds.is_pre_vote_free,
        is_lean=bounds.is_lean,
    )
    return replace(setting, base=VoterSet.of(*(steps.key_of(setting, id) for id in ids[: bounds.voters])))


def _rises(ranks: list[Number]) -> bool:
    return all(a <= b for a, b in pairwise(ranks))


def _renamings(voters: tuple[NodeId, ...], others: tuple[NodeId, ...]) -> list[dict[NodeId, NodeId]]:
    """All exchanges of nodes that begin alike; the first changes nothing."""
    return [
        {**dict(zip(voters, to, strict=True)), **dict(zip(others, also, strict=True))}
        for to in permutations(voters)
        for also in permutations(others)
    ]


def _spent(budgets: tuple[int, ...], which: int) -> tuple[int, ...]:
    return (*budgets[:which], budgets[which] - 1, *budgets[which + 1 :])
