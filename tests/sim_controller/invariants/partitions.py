"""I-46 … I-55 of tests/INVARIANTS.md: what each state of a partition must be, and each change of one."""

from __future__ import annotations

from quorate.nouns import NOBODY, NodeId
from tests.sim.invariants.base import require
from tests.sim_controller.model import RECOVERING, Key, Model, Part, Step

BUMPS_ON_SHRINK_BELOW = 12
"""Below 3.6-IV0 a shrinking ISR raises the leader epoch. KAFKA-15021."""


def judge_step(model: Model, step: Step, *, is_cleared: bool) -> None:
    """One record has made `step.after` of `step.before`; `model` is the cluster after it.

    `is_cleared` if it was a ClearElr, which ends E and K of partitions as they are.
    """
    _judge_state(model, step.key, step.after)
    if step.before is None:
        _judge_first(step.key, step.after)
    else:
        _judge_epochs(model, step.key, step.before, step.after)
        _judge_leader(model, step)
        if not is_cleared:
            _judge_remembered(model, step.key, step.before, step.after)


def judge_all(model: Model) -> None:
    """Every partition: a broker, a level or a config has changed."""
    for key, part in model.parts.items():
        _judge_state(model, key, part)


def joined(step: Step) -> frozenset[NodeId]:
    """Who has come into the ISR."""
    return frozenset() if step.before is None else frozenset(step.after.isr) - frozenset(step.before.isr)


def _judge_state(model: Model, key: Key, part: Part) -> None:
    replicas, isr, elr, last = set(part.replicas), set(part.isr), set(part.elr), set(part.last_known)
    adding, removing = set(part.adding), set(part.removing)
    what = (model.names[key[0]], key[1], part)
    is_list = all(len(set(each)) == len(each) for each in (part.replicas, part.isr, part.elr, part.last_known))
    require(is_list, "I-46", "nobody is listed twice", *what)
    require(isr | elr | last <= replicas, "I-46", "I, E and K are of R", *what)
    require(adding | removing <= replicas, "I-46", "A and D are of R", *what)
    require(not adding & removing, "I-46", "nobody comes and goes", *what)
    require(len(part.directories) == len(part.replicas), "I-46", "each replica has a directory", *what)
    require(part.leader == NOBODY or part.leader in isr, "I-47", "who leads is in the ISR", *what)
    require(bool(isr) or part.leader == NOBODY, "I-47", "an empty ISR has no leader", *what)
    require(not isr & elr, "I-48", "I and E are disjoint", *what)
    is_remembered = model.has_elr and part.leader == NOBODY and key not in model.legacy
    require(not (is_remembered and isr & last), "I-48", "K and I are disjoint", *what)
    require(part.recovery != RECOVERING or len(isr) <= 1, "I-55", "nobody joins who recovers", *what)
    _judge_brokers(model, key, part)


def _judge_brokers(model: Model, key: Key, part: Part) -> None:
    what = (model.names[key[0]], key[1], part)
    is_led = part.leader == NOBODY or not model.members[part.leader].fenced if part.leader in model.members else False
    require(is_led or part.leader == NOBODY, "I-53", "no fenced broker leads", *what)
    is_last = len(part.isr) == 1 and part.leader == NOBODY and (not model.has_elr or key in model.legacy)
    gone = [id for id in part.isr if id not in model.members or model.members[id].fenced]
    require(is_last or not gone, "I-53", "no fenced broker is in the ISR", gone, *what)


def judge_eligible(model: Model, key: Key) -> None:
    """I-49, once all records of a decision have had their effect: a config and its ClearElr count together."""
    part = model.parts[key]
    is_enough = model.has_elr and len(part.isr) >= model.min_isr(key)
    what = (model.names[key[0]], key[1], part, model.min_isr(key))
    require(not is_enough or not part.elr, "I-49", "an ISR that suffices ends E", *what)


def _judge_first(key: Key, part: Part) -> None:
    epochs = (part.leader_epoch, part.partition_epoch)
    require(epochs == (0, 0), "I-50", "a partition begins in epoch 0", key[1], part)


def _judge_epochs(model: Model, key: Key, before: Part, after: Part) -> None:
    what = (model.names[key[0]], key[1], before, after)
    require(after.partition_epoch == before.partition_epoch + 1, "I-50", "each change counts one", *what)
    shrinks = not set(before.isr) <= set(after.isr)
    must_rise = (
        before.leader != after.leader
        or not set(before.replicas) <= set(after.replicas)
        or (shrinks and model.level < BUMPS_ON_SHRINK_BELOW)
    )
    risen = after.leader_epoch - before.leader_epoch
    require(risen == int(must_rise), "I-51", "the leader epoch rises with the leader, by one", risen, *what)


def _judge_remembered(model: Model, key: Key, before: Part, after: Part) -> None:
    """I-49: K is the leader that was lost last, while the ELR was on, until another is elected while it is on."""
    what = (model.names[key[0]], key[1], model.has_elr, before, after)
    was_led, is_led = before.leader != NOBODY, after.leader != NOBODY
    if was_led and not is_led:
        lost = {before.leader} & set(after.replicas) if model.has_elr else set()
        require(set(after.last_known) == lost, "I-49", "who is lost is remembered where the ELR is on", *what)
    elif model.has_elr and is_led and after.leader != before.leader:
        require(not after.last_known, "I-49", "who is elected ends K", *what)
    else:
        kept = tuple(id for id in before.last_known if id in after.replicas)
        is_ended = model.has_elr and is_led and not after.last_known
        require(is_ended or after.last_known == kept, "I-49", "K stays until somebody is elected", *what)


def _judge_leader(model: Model, step: Step) -> None:
    """A leader that was elected uncleanly is alone. Whether it might be, is judged where the request is known."""
    what = (model.names[step.key[0]], step.key[1], step.before, step.after)
    if is_unclean(step):
        require(step.after.isr == (step.after.leader,), "I-54", "an unclean leader is alone in the ISR", *what)
        require(not step.after.elr, "I-54", "an unclean leader leaves nobody eligible", *what)


def is_unclean(step: Step) -> bool:
    """Was a leader elected who may lack committed records? One from the ELR may have to recover from before."""
    before, after = step.before, step.after
    if before is None or after.leader in (before.leader, NOBODY) or after.leader in before.isr:
        return False
    recovers_still = after.leader in before.elr and before.recovery == RECOVERING
    return after.recovery == RECOVERING and not recovers_still


def is_from_elr(step: Step) -> bool:
    """Was a leader elected who had left the ISR, and lacks nothing?"""
    before, after = step.before, step.after
    return before is not None and after.leader != before.leader and after.leader in before.elr
