"""An event loop in which chance says what of the ready runs next, and time passes only where nothing is ready.

asyncio's own loop runs the ready in the order in which they became so; over a network, that order is chance. Here it is
drawn from the seed, so that each race which an order of arrivals can lead to is met, and met again. Each callback
belongs to the process (`Life`) in whose context it was scheduled: with that process it is paused, and ends, and by
the clock of its host it is timed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random
from typing import Any, Final, Protocol

from tests.sim_driver.clock import HostClock

US: Final = 1_000_000
STEPS_WITHOUT_TIME_MAX: Final = 50_000
"""So much is never due at one moment, unless somebody goes round in circles."""
PRUNE_AT: Final = 512


class Owner(Protocol):
    """Whose process it is."""

    host: int


class Killed(BaseException):
    """The process has ended here. It is caught by nobody who goes on."""


@dataclass(eq=False)
class Life:
    """One life of one process. `owner` hears nothing when it is over: it is the one who ends it."""

    owner: Owner
    name: str
    is_over: bool = False
    paused_until_us: int = 0


LIFE: ContextVar[Life | None] = ContextVar("life", default=None)


def context_of(life: Life | None) -> Context:
    """Where what is scheduled belongs to `life`."""
    context = copy_context()
    context.run(LIFE.set, life)
    return context


class Handle:
    """Something to be run, now or later. asyncio's own does the same, more slowly."""

    __slots__ = ("context", "due_us", "is_cancelled", "work")

    def __init__(
        self, due_us: int, work: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> None:
        self.due_us = due_us
        """By the clock of the waiting process; 0 for at once."""
        self.work = work, args
        self.context = copy_context() if context is None else context
        self.is_cancelled = False

    def cancel(self) -> None:
        """It is passed over when its time comes."""
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.due_us / US


class Task(asyncio.Task[Any]):
    """One that lies in a set where its number puts it, not its address: a TaskGroup cancels in the order of a set."""

    def __init__(self, coro: Coroutine[Any, Any, Any], loop: Loop, *, number: int, name: str, context: Context | None):
        self.number = number
        super().__init__(coro, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.number


def _forget(generator: AsyncGenerator[Any, Any]) -> None:
    """Who drops a generator closes it before, or is a process that has ended: then it must not run on."""


class Loop(asyncio.AbstractEventLoop):
    """`disorder` is how often, of 100 times, another than the first of the ready runs next."""

    def __init__(self, random: Random, *, disorder: int) -> None:
        self.now_us = 0
        self.step_count = 0
        self.disorder_count = 0
        """How often another than the first of the ready ran next."""
        self.clocks: dict[int, HostClock] = {}
        """By host; who has none goes by the true time."""
        self._random = random
        self._disorder = disorder
        self._ready: list[Handle] = []
        self._timers: list[tuple[int, int, Handle]] = []
        self._number = 0
        self._task_count = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._generators: list[AsyncGenerator[Any, Any]] = []
        self._prune_at = PRUNE_AT
        self._is_over = False

    # To run it.

    def run_until_us(self, until_us: int, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Everything that is due up to then, or until it is enough at the end of a moment.

        An error of a callback is raised here.
        """
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._generators.append, finalizer=_forget)
        asyncio._set_running_loop(self)
        try:
            idle_steps = 0
            while True:
                if not self._ready:
                    idle_steps = 0
                    if is_enough() or not self._advance(until_us):
                        return
                    continue
                idle_steps += 1
                assert idle_steps < STEPS_WITHOUT_TIME_MAX, f"{idle_steps} steps at {self.now_us} us"
                self._step()
        finally:
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def end(self) -> None:
        """Close what is still under way; nothing is scheduled any more."""
        self._is_over = True
        self._ready.clear()
        self._timers.clear()
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=_forget)
        for task in self._tasks:
            coroutine = task.get_coro()
            if not task.done() and asyncio.iscoroutine(coroutine):
                with suppress(BaseException):  # it was killed; what it still wants to do is of no consequence
                    coroutine.close()
        for generator in self._generators:
            with suppress(BaseException):
                generator.aclose().send(None)
        self._tasks.clear()
        self._generators.clear()
        sys.set_asyncgen_hooks(*hooks)

    def _advance(self, until_us: int) -> bool:
        if not self._timers or self._timers[0][0] > until_us:
            self.now_us = max(self.now_us, until_us)
            return False
        self.now_us = max(self.now_us, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self.now_us:
            handle = heappop(self._timers)[2]
            clock = self._clock(handle.context)
            if clock is not None and clock.now_us < handle.due_us:  # it was made slower meanwhile
                self._push(clock.due_us(handle.due_us), handle)
            else:
                self._ready.append(handle)
        return True

    def _step(self) -> None:
        count, chance = len(self._ready), self._random.random
        at = int(chance() * count) if count > 1 and 100 * chance() < self._disorder else 0
        self.disorder_count += at > 0
        handle = self._ready.pop(at)
        life = handle.context.get(LIFE)
        if handle.is_cancelled or (life is not None and life.is_over):
            return
        if life is not None and life.paused_until_us > self.now_us:
            self._push(life.paused_until_us, handle)
            return
        self.step_count += 1
        callback, args = handle.work
        try:
            handle.context.run(callback, *args)
        except Killed:
            return  # and so it stays: nothing of that life runs any more

    def _push(self, due_us: int, handle: Handle) -> None:
        self._number += 1
        heappush(self._timers, (due_us, self._number, handle))

    def _clock(self, context: Context | None) -> HostClock | None:
        """Of the host where the process of this context runs, or the present one."""
        life = LIFE.get() if context is None else context.get(LIFE)
        return None if life is None else self.clocks.get(life.owner.host)

    def _time_us(self, context: Context | None = None) -> int:
        clock = self._clock(context)
        return self.now_us if clock is None else clock.now_us

    # What asyncio asks of a loop.

    def time(self) -> float:
        """By the clock of the asking process."""
        return self._time_us() / US

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Handle:  # type: ignore[override]
        handle = Handle(0, callback, args, context)
        if not self._is_over:
            self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        if delay > 0:
            delay = max(delay, 1 / US)  # or who waits for less, by an error of rounding, waits for ever
        clock = self._clock(context)
        now_us = self.now_us if clock is None else clock.now_us
        return self._at(clock, max(now_us, round((now_us / US + delay) * US)), callback, args, context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        clock = self._clock(context)
        now_us = self.now_us if clock is None else clock.now_us
        return self._at(clock, max(now_us, round(when * US)), callback, args, context)

    def _at(
        self,
        clock: HostClock | None,
        due_us: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> Handle:
        handle = Handle(due_us, callback, args, context)
        if not self._is_over:
            self._push(due_us if clock is None else clock.due_us(due_us), handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        self._task_count += 1
        task = Task(coro, self, number=self._task_count, name=name or "task", context=context)
        self._tasks.append(task)  # kept, for what is thrown away would run to its end at whatever moment
        if len(self._tasks) > self._prune_at:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._prune_at = max(PRUNE_AT, 2 * len(self._tasks))
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """The thread does it at one moment, and tells of it at another."""
        told = self.create_future()

        def tell(result: Any, error: BaseException | None) -> None:
            if told.cancelled():
                return
            if error is None:
                told.set_result(result)
            else:
                told.set_exception(error)

        def work() -> None:
            try:
                outcome: tuple[Any, BaseException | None] = func(*args), None
            except Exception as error:
                outcome = None, error
            self.call_later(self._random.randrange(3) / 1000, tell, *outcome)

        self.call_later(self._random.randrange(5) / 1000, work)
        return told

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._is_over

    def is_closed(self) -> bool:
        return self._is_over

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Who waits for a task looks at what became of it; of the others nothing is lost."""
