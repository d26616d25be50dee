"""Threads for work that may hang: never more than allowed, in order, and each gets its own result or error."""

from __future__ import annotations

import threading

import pytest

from quorate.runtime.event_loop.daemon_threads import DaemonThreads

WITHIN_S = 120


def test_one_thread_does_all_in_order() -> None:
    threads, done = DaemonThreads(1), list[int]()
    futures = [threads.submit(done.append, number) for number in range(1_000)]
    for future in futures:
        future.result(WITHIN_S)

    assert list(range(1_000)) == done


def test_no_more_run_at_once_than_are_allowed() -> None:
    threads = DaemonThreads(3)
    together, released = threading.Barrier(4), threading.Event()

    def meet() -> int:
        together.wait(WITHIN_S)
        released.wait(WITHIN_S)
        return threading.active_count()

    before = threading.active_count()
    held = [threads.submit(meet) for _ in range(3)]
    together.wait(WITHIN_S)
    waiting = threads.submit(threading.active_count)

    assert not waiting.running()
    assert before + 3 == threading.active_count()

    released.set()
    for future in held:
        future.result(WITHIN_S)

    assert waiting.result(WITHIN_S) <= before + 3


def test_an_error_is_that_of_its_work_alone() -> None:
    threads = DaemonThreads(1)
    failed, good = threads.submit(int, "x"), threads.submit(int, "1", base=8)

    with pytest.raises(ValueError, match="invalid literal"):
        failed.result(WITHIN_S)
    assert 1 == good.result(WITHIN_S)


def test_what_is_cancelled_before_its_turn_is_not_done() -> None:
    threads, released, done = DaemonThreads(1), threading.Event(), list[int]()
    threads.submit(released.wait, WITHIN_S)
    cancelled, last = threads.submit(done.append, 1), threads.submit(done.append, 2)

    assert cancelled.cancel()
    released.set()
    last.result(WITHIN_S)
    assert [2] == done
