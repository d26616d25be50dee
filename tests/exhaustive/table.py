"""Numbers for values: nodes, messages and commit maps are met again and again, so a state is a few small ints.

Each node's step is asked of the real core once, and remembered: the core is deterministic, so that what it did for a
value it will do again. The renamings of a value are remembered likewise.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar, cast

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId
from quorate.raft.messages import FetchResponse
from tests.exhaustive import steps
from tests.exhaustive.frozen import Renaming, Value, rename, replaced, thaw
from tests.exhaustive.node import Branches, Entry, Local, Node, Setting, Slot, is_of_voters
from tests.exhaustive.steps import Action, Outcome, View, view

H = TypeVar("H", bound=Hashable)

Number: TypeAlias = int
NO_EPOCH = -1
"""Of a message that speaks of none."""


class Numbers(Generic[H]):
    """Values by number, numbers by value."""

    __slots__ = ("_numbers", "values")

    def __init__(self) -> None:
        self.values: list[H] = []
        self._numbers: dict[H, Number] = {}

    def __len__(self) -> int:
        return len(self.values)

    def of(self, value: H) -> Number:
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number


@dataclass(frozen=True, slots=True)
class Letter:
    """A message on the wire. `is_waited_for` is False once the asker has given it up: answers are then lost."""

    sender: NodeId
    to: NodeId
    is_request: bool
    is_waited_for: bool
    is_of_voters: bool
    name: str
    epoch: Epoch
    is_pre_vote: bool
    is_empty_fetch: bool
    """Is it an answer to a fetch that brings no more than the high watermark?"""
    value: Value

    @classmethod
    def of(cls, sender: NodeId, to: NodeId, value: Value, *, is_waited_for: bool) -> Letter:
        fields = cast(tuple[Value, ...], value)
        name = cast(str, fields[0])
        return cls(
            sender=sender,
            to=to,
            is_request=name.endswith("Request"),
            is_waited_for=is_waited_for,
            is_of_voters=is_of_voters(name),
            name=name,
            epoch=fields[1] if isinstance(fields[1], int) else NO_EPOCH,
            is_pre_vote=name == "VoteRequest" and fields[4] is True,
            is_empty_fetch=name == "FetchResponse" and _is_empty(thaw(value)),
            value=value,
        )


@dataclass(frozen=True, slots=True)
class Past:
    """What no single node knows: who led each epoch, and every record that was ever committed."""

    leaders: tuple[tuple[Epoch, NodeId], ...] = ()
    committed: tuple[tuple[Entry, tuple[NodeId, ...]], ...] = ()
    """Each record with the voters in force where it was committed."""


@dataclass(frozen=True, slots=True)
class Move:
    """An `Outcome` in numbers."""

    local: Number
    requests: tuple[Number, ...]
    answers: tuple[tuple[NodeId, Number], ...]
    lost: tuple[Slot, ...]
    outcome: Outcome


class Table:
    """All values met in one walk, and all steps of the core."""

    def __init__(self, setting: Setting, renamings: Sequence[Renaming]) -> None:
        self.setting = setting
        self.renamings = renamings
        self.locals: Numbers[Local] = Numbers()
        self.letters: Numbers[Letter] = Numbers()
        self.pasts: Numbers[Past] = Numbers()
        self.truncation_count = 0
        self._views: dict[Number, View] = {}
        self._moves: dict[tuple[Number, Action], tuple[Move, ...]] = {}
        self._forgotten: dict[tuple[Number, Slot], Number] = {}
        self._renamed: dict[Number, tuple[Number, ...]] = {}
        self._renamed_letters: dict[Number, tuple[Number, ...]] = {}
        self._renamed_pasts: dict[Number, tuple[Number, ...]] = {}
        self._like_loss: dict[tuple[Number, Number], bool] = {}
        self._dead: dict[tuple[Number, Number], bool] = {}

    @property
    def step_count(self) -> int:
        """How many steps of the core were made; all others were known."""
        return len(self._moves)

    def view(self, local: Number) -> View:
        found = self._views.get(local)
        if found is None:
            node = Node.take_up(self.setting, self.locals.values[local], Branches())
            found = self._views[local] = view(node)
        return found

    def moves(self, local: Number, action: Action) -> tuple[Move, ...]:
        """Every way in which the node may take `action`."""
        known = self._moves.get((local, action))
        if known is None:
            outcomes = steps.step(self.setting, self.locals.values[local], action)
            self.truncation_count += sum(bool(outcome.cut) for outcome in outcomes)
            known = self._moves[local, action] = tuple(dict.fromkeys(self.move(outcome) for outcome in outcomes))
        return known

    def move(self, outcome: Outcome) -> Move:
        id = outcome.view.id
        local = self.locals.of(outcome.local)
        self._views[local] = outcome.view
        requests = tuple(
            self.letters.of(Letter.of(id, to, value, is_waited_for=is_waited_for))
            for to, is_waited_for, value in outcome.requests
        )
        answers = tuple(
            (to, self.letters.of(Letter.of(id, to, value, is_waited_for=True))) for to, value in outcome.answers
        )
        return Move(local, requests, answers, outcome.lost, outcome)

    def take(self, letter: Letter) -> Action:
        return "take", letter.sender, letter.is_waited_for, letter.value

    def given_up(self, letter: Number) -> Number:
        """The same request, when its asker no longer waits."""
        was = self.letters.values[letter]
        return self.letters.of(Letter.of(was.sender, was.to, was.value, is_waited_for=False))

    def waited_for(self, letter: Number) -> Number:
        """The same request, as when its asker waited."""
        was = self.letters.values[letter]
        return self.letters.of(Letter.of(was.sender, was.to, was.value, is_waited_for=True))

    def forget(self, local: Number, slot: Slot) -> Number:
        """The node, when what came from `slot[0]`, and is held here, is no longer waited for."""
        known = self._forgotten.get((local, slot))
        if known is None:
            core, *rest = self.locals.values[local]
            core = replaced(core, ("tuple", "route", *slot, 1), ("tuple", "route", *slot, 0))
            known = self._forgotten[local, slot] = self.locals.of(cast(Local, (core, *rest)))
        return known

    def is_dead(self, letter: Number, local: Number) -> bool:
        """Would `letter` change nothing at this node, now or ever? `README.md` gives the reason for each case."""
        known = self._dead.get((letter, local))
        if known is None:
            known = self._dead[letter, local] = _is_dead(self.letters.values[letter], self.view(local))
        return known

    def is_like_loss(self, letter: Number, local: Number) -> bool:
        """Does the answer `letter` do no more to this node than its loss would, once the request is late?"""
        known = self._like_loss.get((letter, local))
        if known is None:
            answer = self.letters.values[letter]
            if self.setting.is_lean and _is_refused_vote(answer, self.view(local)):
                self._like_loss[letter, local] = True
                return True
            late: Action = ("late", answer.sender, answer.is_of_voters)
            known = late in self.view(local).actions and self.moves(local, late) == self.moves(local, self.take(answer))
            self._like_loss[letter, local] = known
        return known

    # Symmetry.

    def renamed(self, local: Number) -> tuple[Number, ...]:
        """The node under each of the renamings."""
        known = self._renamed.get(local)
        if known is None:
            value = self.locals.values[local]
            known = tuple(self.locals.of(_rename_local(value, names)) for names in self.renamings)
            self._renamed[local] = known
        return known

    def renamed_letter(self, letter: Number) -> tuple[Number, ...]:
        known = self._renamed_letters.get(letter)
        if known is None:
            was = self.letters.values[letter]
            known = tuple(
                self.letters.of(
                    Letter.of(
                        names[was.sender],
                        names[was.to],
                        rename(was.value, names),
                        is_waited_for=was.is_waited_for,
                    )
                )
                for names in self.renamings
            )
            self._renamed_letters[letter] = known
        return known

    def renamed_past(self, past: Number) -> tuple[Number, ...]:
        known = self._renamed_pasts.get(past)
        if known is None:
            known = tuple(self.pasts.of(_rename_past(self.pasts.values[past], names)) for names in self.renamings)
            self._renamed_pasts[past] = known
        return known


def _is_empty(message: object) -> bool:
    assert isinstance(message, FetchResponse), message
    return message.error is ErrorCode.NONE and message.diverging is None and not message.batches


def _rename_local(local: Local, names: Renaming) -> Local:
    core, log, flushed, durable, grant = local
    renamed = tuple(_rename_entry(entry, names) for entry in log)
    return rename(core, names), renamed, flushed, rename(durable, names), rename(grant, names)


def _rename_entry(entry: Entry, names: Renaming) -> Entry:
    epoch, data, voters, kraft_version = entry
    return epoch, rename(data, names), rename(voters, names), kraft_version


def _rename_past(past: Past, names: Renaming) -> Past:
    return Past(
        leaders=tuple((epoch, names[id]) for epoch, id in past.leaders),
        committed=tuple(
            (_rename_entry(entry, names), tuple(sorted(names[id] for id in voters))) for entry, voters in past.committed
        ),
    )


def _is_refused_vote(answer: Letter, at: View) -> bool:
    if answer.name != "VoteResponse" or answer.epoch != at.epoch:
        return False
    _, _, leader_id, is_granted, *_ = cast(tuple[Value, ...], answer.value)
    return leader_id is None and not is_granted


def _is_dead(letter: Letter, at: View) -> bool:
    if not letter.is_request or letter.is_waited_for or letter.epoch > at.epoch:
        return False
    if letter.epoch < at.epoch:  # also what speaks of no epoch: a question whose answer nobody waits for
        return True
    match letter.name:
        case "VoteRequest":
            return letter.is_pre_vote or at.role in ("Candidate", "Leader", "Follower", "Resigned")
        case "BeginQuorumEpochRequest":
            return at.leader_id is not None
        case "FetchRequest":
            return at.role in ("Follower", "Resigned")
    return False
