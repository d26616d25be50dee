"""Which host names have an address: those that this machine's resolver finds, and nothing that it stumbles over."""

from __future__ import annotations

import pytest

from services.controller.handlers.configs import NAMES_MAX, resolvable

pytestmark = pytest.mark.asyncio


async def test_finds_what_has_an_address() -> None:
    """A name that ends in `.invalid` never has one (RFC 6761), and no name may have a label of 64 characters or
    none."""
    names = ["localhost", "127.0.0.1", "nobody.invalid", "a" * 64, "a..b"]

    assert {"localhost", "127.0.0.1"} == await resolvable(names)


async def test_looks_nothing_up_where_there_is_nothing() -> None:
    assert frozenset() == await resolvable([])


async def test_a_request_may_not_keep_the_resolver_busy_for_ever() -> None:
    addresses = [f"127.0.0.{number}" for number in range(NAMES_MAX + 20)]

    assert NAMES_MAX == len(await resolvable(addresses))
