"""What must be true of the whole cluster in every state. The numbers are those of `tests/sim/invariants`."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.nouns import NodeId, Offset
from tests.exhaustive.frozen import FIRST_ID
from tests.exhaustive.node import Entry, require
from tests.exhaustive.steps import View
from tests.exhaustive.table import Move, Number, Past, Table


def majority(count: int) -> int:
    return count // 2 + 1  # written out here: the core's own arithmetic is under test


class Laws:
    """Keeps the past of each history, and judges states against it."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._judged: set[tuple[tuple[Number, ...], Number]] = set()
        self._pairs: set[tuple[tuple[Entry, ...], tuple[Entry, ...]]] = set()

    # Events.

    def past_after(
        self, past: Number, before: Sequence[Number], at: int, move: Move, nodes: Sequence[Number]
    ) -> Number:
        """The past, with what node `at` has done in its step. Raises Violation."""
        table = self._table
        was, now = table.view(before[at]), move.outcome.view
        if move.outcome.cut:
            committed = table.pasts.values[past].committed
            for offset, entry in move.outcome.cut:
                is_committed = offset < len(committed) and committed[offset][0] == entry
                require(not is_committed, "I-13 no committed record is truncated", now.id, offset, entry)
        led = was.role == "Leader" and was.epoch == now.epoch and not move.outcome.is_new_life
        if now.role == "Leader" and not led:
            past = self._led(past, now)
        elif led and now.role == "Leader":
            self._judge_leading(was, now)
        # A leader that was removed may have resigned in the very step in which it has committed that.
        start = now.epoch_start_offset if now.role == "Leader" else was.epoch_start_offset
        is_news = (led and now.high_watermark > was.high_watermark) or (now.is_committing and not was.is_committing)
        if start is not None and is_news:
            past = self._committed(past, now, start, [table.view(node) for node in nodes])
        return past

    def _led(self, past: Number, now: View) -> Number:
        was = self._table.pasts.values[past]
        others = [entry for entry in was.leaders if entry[0] == now.epoch]
        require(not others, "I-01 one leader an epoch, which leads it once", now.id, now.epoch, others)
        leaders = tuple(sorted((*was.leaders, (now.epoch, now.id))))
        return self._table.pasts.of(Past(leaders, was.committed))

    def _judge_leading(self, was: View, now: View) -> None:
        require(now.log[: len(was.log)] == was.log, "I-11 a leader only appends", now.id, was.log, now.log)
        require(now.high_watermark >= was.high_watermark, "I-17 high watermark is monotone", now.id, was, now)
        if now.voters_offset != was.voters_offset:
            is_settled = was.voters_offset is None or was.voters_offset < was.high_watermark
            require(
                was.is_committing and is_settled, "I-31 one change at a time, after an own commit", now.id, was, now
            )

    def _committed(self, past: Number, now: View, start: Offset, views: Sequence[View]) -> Number:
        end = now.high_watermark
        require(end > start, "I-19 own-epoch rule", now.id, end, start)
        voters = tuple(sorted(key.id for key in now.voters))
        count = holders(views, voters, now.log[:end])
        require(count >= majority(len(voters)), "I-18 what is committed is flushed on a majority", now.id, end, count)
        was = self._table.pasts.values[past]
        if end <= len(was.committed):
            return past
        added = tuple((entry, voters) for entry in now.log[len(was.committed) : end])
        return self._table.pasts.of(Past(was.leaders, was.committed + added))

    # States.

    def judge(self, nodes: tuple[Number, ...], past: Number) -> None:
        """Everything that needs no memory of the last step. Raises Violation."""
        if (nodes, past) in self._judged:
            return
        self._judged.add((nodes, past))
        views = [self._table.view(node) for node in nodes]
        known = self._table.pasts.values[past]
        committed = tuple(entry for entry, _ in known.committed)
        leaders = dict(known.leaders)
        for view in views:
            _judge_leader(view, leaders, committed)
            end = view.high_watermark
            require(view.log[:end] == committed[:end], "I-21 committed is immutable", view.id, view.log, committed)
        for i, view in enumerate(views):
            for other in views[:i]:
                self._judge_pair(view, other)
        _judge_durability(views, known)

    def _judge_pair(self, a: View, b: View) -> None:
        if (a.log, b.log) in self._pairs:
            return
        self._pairs.add((a.log, b.log))
        for offset in range(min(len(a.log), len(b.log)) - 1, -1, -1):
            if a.log[offset][0] == b.log[offset][0]:
                require(a.log[: offset + 1] == b.log[: offset + 1], "I-08 log matching", a.id, a.log, b.id, b.log)
                return


def holders(views: Sequence[View], voters: Sequence[NodeId], prefix: tuple[Entry, ...]) -> int:
    """How many of `voters` have `prefix` on stable storage."""
    end: Offset = len(prefix)
    return sum(views[id - FIRST_ID].flushed >= end and views[id - FIRST_ID].log[:end] == prefix for id in voters)


def _judge_leader(view: View, leaders: dict[int, NodeId], committed: tuple[Entry, ...]) -> None:
    if view.leader_id is not None:
        first = leaders.get(view.epoch)
        require(first == view.leader_id, "I-02 all name the one leader of an epoch", view.id, view.epoch, first)
    if view.role != "Leader":
        return
    older = [offset for offset, entry in enumerate(committed) if entry[0] < view.epoch]
    end = older[-1] + 1 if older else 0
    require(view.log[:end] == committed[:end], "I-12 leader completeness", view.id, view.epoch, view.log, committed)
    if view.is_committing:
        require(view.high_watermark >= end, "I-17 a new leader's high watermark", view.id, view.high_watermark, end)
    is_settled = view.voters_offset is None or view.high_watermark > view.voters_offset
    is_voter = any(key.id == view.id for key in view.voters)
    require(is_voter or not is_settled, "I-33 a removed leader has resigned", view.id, view.voters)


def _judge_durability(views: Sequence[View], past: Past) -> None:
    prefix: tuple[Entry, ...] = ()
    for entry, voters in past.committed:
        prefix = (*prefix, entry)
        count = holders(views, voters, prefix)
        require(count >= majority(len(voters)), "I-22 committed is durable", len(prefix), count, voters)
