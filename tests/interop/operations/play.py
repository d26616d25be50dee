"""Plays the script to all targets, step by step, and notes what each answered and what became of its state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.local.plan import ClusterPlan
from kraft import Message
from kraft.errors import ErrorCode
from quorate.nouns import NodeId, Offset
from tests.interop.operations import ours, theirs
from tests.interop.operations.comparison import is_refusal, rows
from tests.interop.operations.step import Ask, Beat, Step, Until, View
from tests.interop.operations.targets import BEAT_EVERY_S, WITHIN_S, Heartbeats, Outcome, Target, until, view_of

VOTERS: tuple[NodeId, ...] = (1, 2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One target before and after a step: what it was asked, what it answered (None if nothing), its state as rows."""

    request: Message | None
    outcome: Outcome | None
    before: View
    view: View
    rows: dict[str, Any]  # Any: JSON values


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A step with every target after it: Kafka's controllers, ours over gRPC, and ours through a gateway."""

    step: Step
    theirs: Seen
    ours: Seen
    at_gateway: Seen


class Stage:
    """One target with its brokers' heartbeats, and the state that it was last seen in."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.heartbeats = Heartbeats(target)
        self._rows: tuple[Offset, dict[str, Any]] = (-1, {})  # Any: JSON values

    async def take(self, step: Step) -> Seen:
        """One step."""
        request, outcome, before = None, None, await view_of(self.target)
        if isinstance(step, Ask):
            request = step.request(before)
            outcome = await self._asked(step, request)
            assert not is_refusal(outcome, ErrorCode.NOT_CONTROLLER) or ErrorCode.NOT_CONTROLLER in step.errors, step
            view = await view_of(self.target)
        elif isinstance(step, Until):
            view = await until(self.target, step.holds)
        else:
            await self._turn(step)
            view = await view_of(self.target)
        return Seen(request=request, outcome=outcome, before=before, view=view, rows=self._rows_of(view))

    def _rows_of(self, view: View) -> dict[str, Any]:
        """Those of the view before if nothing has changed since."""
        if self._rows[0] != view.changed_at:
            self._rows = view.changed_at, rows(view.state)
        return self._rows[1]

    async def _asked(self, step: Ask, request: Message) -> Outcome:
        try:
            async with asyncio.timeout(WITHIN_S):
                while True:
                    outcome = await self.target.ask(request, version=step.version)
                    if step.again_while is None or not is_refusal(outcome, step.again_while):
                        return outcome
                    await asyncio.sleep(BEAT_EVERY_S)
        except (EOFError, TimeoutError) as silence:
            silence.add_note(f"{self.target.name} gave no answer to {step.name!r}: {request}")
            raise

    async def _turn(self, step: Beat) -> None:
        await self.heartbeats.end(*step.end)
        self.heartbeats.begin(*step.begin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """Every target, and the plan of our processes that are asked over gRPC."""

    theirs: Stage
    ours: Stage
    at_gateway: Stage
    plan: ClusterPlan


@asynccontextmanager
async def all_running(scratch: Path) -> AsyncIterator[Stages]:
    """All quorums run, and nothing has been asked of them."""
    async with (
        theirs.running(scratch, VOTERS) as one,
        ours.running(scratch, VOTERS) as (other, plan),
        ours.running_gateways(scratch, VOTERS) as third,
    ):
        stages = Stages(theirs=Stage(one), ours=Stage(other), at_gateway=Stage(third), plan=plan)
        try:
            yield stages
        finally:
            for stage in (stages.theirs, stages.ours, stages.at_gateway):
                await stage.heartbeats.close()


async def play(stages: Stages, script: Iterable[Step]) -> AsyncIterator[Played]:
    """Every step on all targets at once, and the next one when all are through."""
    for step in script:
        one, other, third = await asyncio.gather(
            stages.theirs.take(step), stages.ours.take(step), stages.at_gateway.take(step)
        )
        yield Played(step=step, theirs=one, ours=other, at_gateway=third)
