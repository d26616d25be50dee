"""The indexes of the ACL entries, beside a plain list of them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from kraft import Uuid
from quorate.metadata.acls import AclOperation, AclPermission, Acls, PatternType, ResourceType, pattern_of
from quorate.records import AccessControlEntryRecord as Entry
from quorate.records import RemoveAccessControlEntryRecord as Removed
from quorate.timeline import SnapshotRegistry
from tests.controller.clusters import uuid

MANY = 500


class Host(str):
    """A host that counts how often any is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Host.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def entry(number: int, host: str, operation: AclOperation = AclOperation.READ) -> Entry:
    """An entry of one topic and one principal."""
    literal, allow = PatternType.LITERAL, AclPermission.ALLOW
    return Entry(uuid(number), ResourceType.TOPIC, "orders", literal, "User:alice", host, operation, allow)


def table(entries: Sequence[Entry]) -> Acls:
    acls = Acls(SnapshotRegistry())
    for offset, each in enumerate(entries):
        acls.add(each, offset)
    return acls


def test_an_entry_is_looked_up_without_a_look_at_the_others() -> None:
    acls = table([entry(number, Host(f"10.0.{number // 256}.{number % 256}")) for number in range(MANY)])
    Host.compared = 0

    assert acls.has(entry(MANY, Host("10.0.1.9")))
    assert not acls.has(entry(MANY, Host("10.9.9.9")))
    assert Host.compared < 10


operations = st.sampled_from([AclOperation.READ, AclOperation.WRITE])
entries = st.builds(entry, st.integers(1, 4), st.sampled_from(["*", "10.0.0.1"]), operations)


@given(st.lists(entries | st.integers(1, 4).map(uuid)))
def test_the_indexes_say_what_a_list_of_the_entries_says(steps: list[Entry | Uuid]) -> None:
    """Two entries of equal content may have two ids, and one may be replaced by another of its id."""
    acls, there = table(()), dict[Uuid, Entry]()
    for offset, step in enumerate(steps):
        if isinstance(step, Entry):
            acls.add(step, offset)
            there[step.id] = step
        elif there.pop(step, None) is not None:
            acls.remove(Removed(step), offset)
        contents = {(each.host, each.operation) for each in there.values()}
        for host in ("*", "10.0.0.1"):
            for operation in (AclOperation.READ, AclOperation.WRITE):
                asked = entry(9, host, operation)

                assert acls.has(asked) is ((host, operation) in contents)
                assert {each.id for each in acls.said(pattern_of(asked), "User:alice")} == there.keys()
