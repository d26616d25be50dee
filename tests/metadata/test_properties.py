"""What is true of every log: whichever way a state comes about, it is the same state."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraft import Message
from quorate.metadata.canonical import canonical
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST
from quorate.records import FeatureLevelRecord, decode_record, encode_record
from tests.metadata.histories import histories


def replayed(log: list[Message], start: int = 0, state: ClusterState | None = None) -> ClusterState:
    state = state or ClusterState()
    for offset, record in enumerate(log, start):
        state.apply(record, offset)
    return state


def checkpoint(state: ClusterState, metadata_version: int | None = LATEST) -> list[bytes]:
    return [encode_record(record, version) for record, version in state.records(metadata_version)]


def loaded(values: list[bytes], offset: int) -> ClusterState:
    state = ClusterState()
    state.load(map(decode_record, values), offset)
    return state


@given(histories())
def test_a_state_rebuilds_from_its_records(log: list[Message]) -> None:
    whole = replayed(log)
    level = whole.features.metadata_version
    again = loaded(checkpoint(whole, None), len(log))

    assert level == again.features.metadata_version
    if level in (None, LATEST):
        assert whole == again
        assert canonical(whole) == canonical(again)


@given(histories())
def test_writing_a_checkpoint_again_changes_nothing_at_any_level(log: list[Message]) -> None:
    once = loaded(checkpoint(replayed(log), None), len(log))
    twice = loaded(checkpoint(once, None), len(log))

    assert once == twice
    assert checkpoint(once, None) == checkpoint(twice, None)


@given(histories(), st.data())
def test_a_checkpoint_and_the_rest_make_the_whole(log: list[Message], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(log)))
    before = replayed(log[:cut])
    if before.transactions.open:  # a checkpoint ends where the transaction began
        cut = before.transactions.open.start
        before = before.at(cut)
    level = before.features.metadata_version
    after = ClusterState()
    after.load((decode_record(value) for value in checkpoint(before)), cut)
    if level is not None:  # the checkpoint above was written at the newest level, so that it holds everything
        after.apply(_level(level), cut)

    assert canonical(replayed(log)) == canonical(replayed(log[cut:], cut, after))


def _level(level: int) -> Message:
    return FeatureLevelRecord("metadata.version", level)


@given(histories(), st.data())
def test_a_revert_is_as_if_never_applied(log: list[Message], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(log)))
    state = replayed(log[:cut])
    start = state.transactions.open.start if state.transactions.open else cut
    untouched = canonical(state)
    if cut not in state.registry:
        state.registry.create(cut)
    ends = [offset for offset in range(cut, len(log)) if type(log[offset]).__name__ == "AbortTransactionRecord"]
    last = ends[0] if start < cut and ends else len(log)  # an abort of what was open at the cut goes further back

    replayed(log[cut:last], cut, state)
    state.registry.revert_to(cut)

    assert untouched == canonical(state)
    assert counts(replayed(log[:cut])) == counts(state)
    assert canonical(replayed(log)) == canonical(replayed(log[cut:], cut, state))


@given(histories(), st.data())
def test_the_past_can_be_read_while_the_present_moves_on(log: list[Message], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(log)))
    state = replayed(log[:cut])
    state.settle()
    if cut not in state.registry:
        state.registry.create(cut)
    inside = state.transactions.open is not None
    for offset, record in enumerate(log[cut:], cut):
        if inside and type(record).__name__ == "AbortTransactionRecord":
            break  # goes back beyond the cut
        state.apply(record, offset)

    then = replayed(log[:cut])
    assert canonical(then) == canonical(state.at(cut))
    assert counts(then) == counts(state.at(cut))


@given(histories())
def test_the_index_counts_what_is_there(log: list[Message]) -> None:
    state = replayed(log)
    partitions = [found.partition for found in state.topics.all()]

    for broker in range(-1, 6):
        assert sum(partition.leader == broker for partition in partitions) == state.topics.leader_count(broker)
        assert [p for p in partitions if broker in p.isr] == [f.partition for f in state.topics.in_isr(broker)]
        assert [p for p in partitions if broker in p.elr] == [f.partition for f in state.topics.in_elr(broker)]
        assert [p for p in partitions if p.leader == broker] == [f.partition for f in state.topics.led_by(broker)]
    assert sorted(map(repr, (p for p in partitions if p.is_reassigning))) == sorted(
        repr(found.partition) for found in state.topics.reassigning()
    )
    imbalanced = [p for p in partitions if p.leader != p.preferred_leader or p.leader == -1]
    assert len(imbalanced) == state.topics.imbalanced_count
    assert sorted(map(repr, imbalanced)) == sorted(repr(found.partition) for found in state.topics.imbalanced())
    led = [found for found in state.topics.all() if found.partition.leader != -1]
    lacking = [p for _, _, p in led if len(p.isr) < sum(r not in p.adding_replicas for r in p.replicas)]
    assert len(lacking) == state.topics.under_replicated_count
    for least in range(4):
        under = [p for topic, _, p in led if len(p.isr) < min(least + len(topic.name) % 2, len(p.replicas))]
        assert len(under) == state.topics.under_min_isr_count(lambda name, least=least: least + len(name) % 2)


@given(histories())
def test_an_aborted_transaction_leaves_no_trace(log: list[Message]) -> None:
    kept: list[Message] = []
    begun: int | None = None
    for record in log:
        match type(record).__name__:
            case "BeginTransactionRecord":
                begun = len(kept)
            case "AbortTransactionRecord":
                del kept[begun:]
            case "EndTransactionRecord":
                pass
            case _:
                kept.append(record)

    assert canonical(replayed(kept)) == canonical(replayed(log))


def counts(state: ClusterState) -> list[object]:
    topics = state.topics
    by_broker = [(topics.leader_count(b), topics.isr_count(b), topics.elr_count(b)) for b in range(-1, 6)]
    reassigning = sorted((found.topic.id, found.partition_id) for found in topics.reassigning())
    imbalanced = sorted((found.topic.id, found.partition_id) for found in topics.imbalanced())
    alike = [topics.alike(name) for name in ("orders.eu", "orders_eu")]
    lacking = [topics.under_replicated_count, topics.under_min_isr_count(lambda name: 1 + len(name) % 3)]
    return [by_broker, reassigning, imbalanced, topics.imbalanced_count, topics.partition_count, alike, lacking]
