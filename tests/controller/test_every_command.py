"""Any requests, in any order: what follows is a matter of the log alone, and of nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kraft import Message
from quorate.cli.image_json import as_json
from quorate.controller import commands
from quorate.controller.engine.decision import Command, Decision, Moment, propose, steps_of
from quorate.controller.engine.steps import finished
from quorate.errors import ApiError
from quorate.metadata.canonical import canonical
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST, record_version
from quorate.records import decode_record, encode_record
from tests.controller.stories import ASKS, READS, Batch, Step, Story, any_step, random_steps, replayed, steps

ROOT = Path(__file__).parents[2]
BEGINNINGS = st.builds(lambda level, elr: Story(level, elr=elr).begin(), st.sampled_from([25, 30, 33]), st.booleans())
A_FEW = settings(max_examples=40, deadline=None)


def decided(command: Command[Any], state: ClusterState, moment: Moment) -> object:
    """What a command decides, or its refusal."""
    try:
        return finished(steps_of(command, state, moment))
    except ApiError as refusal:
        return refusal.code, refusal.message


def test_every_command_is_asked_for_in_these_stories() -> None:
    """A file that comes to `commands/` gets an `ask_…` in one of the `asking_about_….py`."""
    files = {path.stem for path in Path(commands.__path__[0]).glob("*.py")} - {"__init__"}

    assert sorted(files) == sorted(ASKS)


def test_every_command_that_may_write_does_so_in_these_stories() -> None:
    """So that what follows speaks of them."""
    written: Counter[str] = Counter()
    for seed in range(4):
        story = Story(elr=seed % 2 == 1).begin()
        for step in random_steps(seed, 400):
            written[step.name] += story.take(step)

    assert [] == [name for name in ASKS if name not in READS and not written[name]]
    assert [] == [name for name in READS if written[name]]


@given(BEGINNINGS, steps())
@A_FEW
def test_a_standby_has_the_state_of_the_controller_that_wrote(story: Story, taken: list[Step]) -> None:
    """What is applied before it is appended, and what is read off the log: the same, to the last bit."""
    story.tell(taken)

    assert canonical(story.state) == canonical(replayed(story.batches))


@given(BEGINNINGS, steps())
@A_FEW
def test_a_state_rebuilds_from_its_records(story: Story, taken: list[Step]) -> None:
    """At its own level: no controller writes what its level has no room for."""
    state = story.tell(taken).state
    again = loaded(checkpoint(state), story.engine.next_offset)

    assert state == again
    assert shown(state) == shown(again)  # which reads the tables by itself
    assert canonical(state) == canonical(again)
    assert checkpoint(state) == checkpoint(again)


@given(BEGINNINGS, steps(), st.integers(0, 999), steps())
@A_FEW
def test_every_read_finds_a_state_that_is_held_as_it_was(
    story: Story, taken: list[Step], seed: int, following: list[Step]
) -> None:
    """So a read between two steps of a write may be decided on the state before it."""
    offset = story.tell(taken).engine.hold_stable()
    assume(offset is not None)
    assert offset is not None
    moment = Moment(next_offset=offset, now_ms=story.now_ms)
    reads = {name: story.command(Step(name, seed)) for name in READS}
    before = {name: decided(read, story.state, moment) for name, read in reads.items()}
    held = story.tell(following).state.at(offset)

    assert before == {name: decided(read, held, moment) for name, read in reads.items()}


@given(BEGINNINGS, steps(), st.data())
@A_FEW
def test_a_checkpoint_at_any_batch_and_the_rest_make_the_whole(
    story: Story, taken: list[Step], data: st.DataObject
) -> None:
    whole = canonical(story.tell(taken).state)
    cut = data.draw(st.integers(0, len(story.batches)))
    before = replayed(story.batches[:cut])
    after = loaded(checkpoint(before), end_of(story.batches[:cut]))

    assert canonical(before) == canonical(after)
    assert whole == canonical(replayed(story.batches[cut:], after))


@given(BEGINNINGS, steps(), st.data())
@A_FEW
def test_going_back_to_any_batch_is_as_if_the_rest_had_never_been(
    story: Story, taken: list[Step], data: st.DataObject
) -> None:
    whole = canonical(story.tell(taken).state)
    cut = data.draw(st.integers(0, len(story.batches)))
    before, rest = story.batches[:cut], story.batches[cut:]
    state, untouched = replayed(before), canonical(replayed(before))
    state.registry.create(end_of(before))
    replayed(rest, state)
    state.registry.revert_to(end_of(before))

    assert untouched == canonical(state)
    assert whole == canonical(replayed(rest, state))


@given(BEGINNINGS, steps(), steps())
@A_FEW
def test_a_controller_that_loses_its_leadership_keeps_what_was_committed_and_no_more(
    story: Story, taken: list[Step], lost: list[Step]
) -> None:
    committed = len(story.tell(taken).batches)
    for step in lost:
        story.write(story.command(step), is_committed=False)
    kept, voided = story.batches[:committed], story.batches[committed:]
    story.engine.renounce()

    assert end_of(kept) == story.engine.next_offset
    assert canonical(replayed(kept)) == canonical(story.state)
    # It may have been committed all the same, and then comes back from the present leader.
    for batch in voided:
        story.engine.replay(batch.records, base_offset=batch.base_offset, end_offset=batch.end_offset)
    assert canonical(replayed(story.batches)) == canonical(story.state)


@given(BEGINNINGS, steps(), any_step())
@A_FEW
def test_a_decision_changes_nothing_and_its_records_can_be_applied(
    story: Story, taken: list[Step], asked: Step
) -> None:
    before = canonical(story.tell(taken).state)
    decision, again, dry = story.decide(asked), story.decide(asked), story.decide(asked, propose)

    assert before == canonical(story.state)
    assert decision == again
    if isinstance(decision, Decision):
        assert isinstance(dry, Decision)
        assert (decision.response, decision.records, ()) == (dry.response.response, dry.response.records, dry.records)
        replayed([Batch(story.engine.next_offset, decision.records)], story.state)


@given(BEGINNINGS, steps(), any_step())
@A_FEW
def test_a_decision_is_a_matter_of_the_state_and_not_of_how_it_came_about(
    story: Story, taken: list[Step], asked: Step
) -> None:
    """The log, or a checkpoint of it: the next controller decides the same.

    Of all partitions that a broker's going concerns, it may begin with others.
    """
    decision = story.tell(taken).decide(asked)
    story.engine.state = loaded(checkpoint(story.state), story.engine.next_offset)
    again = story.decide(asked)

    if isinstance(decision, Decision) and isinstance(again, Decision):
        assert decision.response == again.response
        assert sorted(map(written, decision.records)) == sorted(map(written, again.records))
    else:
        assert decision == again


PROGRAM = """
from tests.controller.stories import Story, random_steps, told
for seed in range(4):
    print(told(Story([25, 33][seed // 2], elr=seed % 2 == 1).begin().tell(random_steps(seed, 300))))
"""


def test_records_answers_and_states_are_the_same_under_any_hash_seed() -> None:
    """Every byte that goes to the quorum, every response, every error."""
    found = set()
    for seed in ("0", "1", "4242"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "libs")])}
        ran = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
        found.add(ran.stdout)

    assert 1 == len(found), found
    assert 4 == len(set(found.pop().splitlines()))


def written(record: Message) -> bytes:
    return encode_record(record, record_version(record, LATEST))


def checkpoint(state: ClusterState) -> list[bytes]:
    return [encode_record(record, version) for record, version in state.records()]


def shown(state: ClusterState) -> dict[str, Any]:
    """The tables as people see them, but for where a broker's registration lay: a checkpoint cannot tell."""
    document = as_json(state)
    for broker in document["cluster"]["brokers"].values():
        del broker["registrationOffset"]
    return document


def loaded(values: list[bytes], offset: int) -> ClusterState:
    state = ClusterState()
    state.load(map(decode_record, values), offset)
    return state


def end_of(batches: list[Batch]) -> int:
    return batches[-1].end_offset if batches else 0
