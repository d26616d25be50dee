"""The sentence for a change of a row: one sentence with what was and what is. The only place that words changes.

The command, and with it what an observer lists, says them of rows; the pipeline says them of the records of its
histories, and of partitions, of which there are most, over arrays, with the words of this table. No sentence has a
secret: the tables have none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from quorate.metadata.partitions import NO_LEADER
from quorate.nouns import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, Epoch, NodeId, uuid_text
from quorate.sql.access_words import ACCESS_WORDINGS
from quorate.sql.difference import Change, Difference
from quorate.sql.nouns import Value
from quorate.sql.wording import AGAIN, DEFAULT, NOT_SET, Values, Wording, is_removed

__all__ = [
    "AGAIN",
    "CREATED",
    "DIRECTORIES",
    "EPOCH",
    "LEADER",
    "LISTS",
    "NONE_THERE",
    "RECOVERED_WORDS",
    "RESERVED",
    "UNCLEAN",
    "Sentence",
    "elected",
    "sentence",
    "sentence_of",
    "sentence_of_gap",
    "voters",
]


class Sentence(NamedTuple):
    """A change in words: `subject` names what has changed, `text` says how, and does not begin with that name."""

    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.subject} {self.text}"


NONE_THERE: Final = "none"
LEADER: Final = "leader"
LISTS: Final = {
    "isr": "ISR",
    "replicas": "replicas",
    "adding_replicas": "adding",
    "removing_replicas": "removing",
    "eligible_leader_replicas": "ELR",
    "last_known_elr": "last known ELR",
}
"""The words for a partition's lists of brokers, by column, in the order of a sentence."""
DIRECTORIES: Final = "directories"
RESERVED: Final = {
    uuid_text(UNASSIGNED_DIRECTORY): "unassigned",
    uuid_text(LOST_DIRECTORY): "lost",
    uuid_text(MIGRATING_DIRECTORY): "migrating",
}
"""Names for the directory ids that mean something (KIP-858)."""
UNCLEAN: Final = "unclean election"
RECOVERED_WORDS: Final = "has recovered"
EPOCH: Final = "leader epoch"
CREATED: Final = ("is created: replicas ", ", ISR ", ", leader ")
"""The words before a new partition's replicas, ISR and leader."""


def sentence(found: Difference) -> Sentence:
    """Returns the sentence that says how a row has changed."""
    return sentence_of(found.noun.name, *_sides(found))


def sentence_of_gap(found: Difference) -> Sentence:
    """Returns the sentence for a row that may have changed several times, as in a gap of the history.

    It is that of `sentence`, but a new leader from outside the old ISR and ELR is not called an unclean election.
    """
    before, after = _sides(found)
    if found.noun.name == "partitions" and before is not None and after is not None:
        return Sentence(_WORDINGS["partitions"].subject(after), _partition_changed(before, after, _is_recovering))
    return sentence_of(found.noun.name, before, after)


def _sides(found: Difference) -> tuple[Values | None, Values | None]:
    same = {**found.key, **found.same}
    before = None if found.change is Change.CREATED else {**same, **found.before}
    return before, None if found.change is Change.DELETED else {**same, **found.after}


def sentence_of(table: str, before: Values | None, after: Values | None) -> Sentence:
    """Returns what is said of a row of a table that was `before` and is `after`; None for a row that is not there.

    Both may be equal: then its record was written again.
    """
    wording = _WORDINGS[table]
    of = after if after is not None else before
    assert of is not None, table
    if before is None:
        return Sentence(wording.subject(of), wording.first(of))
    if after is None:
        return Sentence(wording.subject(of), wording.gone(before))
    return Sentence(wording.subject(of), wording.changed(before, after))


def elected(leader_id: NodeId, epoch: Epoch) -> Sentence:
    """Returns the sentence for the beginning of a leader's epoch in the quorum of controllers."""
    return Sentence(f"controller {leader_id}", f"becomes the active controller in epoch {epoch}")


def voters(before: Sequence[NodeId] | None, after: Sequence[NodeId]) -> Sentence:
    """Returns the sentence for a VotersRecord, which has all voters (KIP-853).

    `before` are the voters of the last one, None if there is none, or it is not known.
    """
    now = _ids(after)
    if before is None or list(before) == list(after):
        return Sentence("quorum", f"voters are written again: {now}")
    return Sentence("quorum", f"voters {_ids(before)} → {now}")


def _is_unregistered(_: Values) -> str:
    return "is unregistered"


def _partition_changed(was: Values, now: Values, is_unclean: Callable[[Values, Values], bool] | None = None) -> str:
    told = [_arrow(LEADER, was, now, "leader", _leader)]
    told += [_arrow(words, was, now, name, _listed) for name, words in LISTS.items()]
    told.append(_arrow(DIRECTORIES, was, now, "directories", _directories))
    told.append(UNCLEAN if (is_unclean or _is_unclean)(was, now) else "")
    state = "leader_recovery_state"
    told.append(RECOVERED_WORDS if (was.get(state), now.get(state)) == ("RECOVERING", "RECOVERED") else "")
    plain = _arrow(EPOCH, was, now, "leader_epoch", str) or AGAIN
    return "; ".join(filter(None, told)) or plain


def _is_unclean(was: Values, now: Values) -> bool:
    """Returns for rows of a partition what `quorate.metadata.partitions.led_uncleanly` says of it, and why."""
    if _is_recovering(was, now):
        return True
    leader = now.get("leader")
    if leader in (None, NO_LEADER, was.get("leader")) or "isr" not in was:
        return False
    eligible = [*_list(was["isr"]), *_list(was.get("eligible_leader_replicas"))]
    return leader not in eligible and set(_list(was.get("replicas"))) == set(_list(now.get("replicas")))


def _is_recovering(was: Values, now: Values) -> bool:
    state = "leader_recovery_state"
    return (was.get(state), now.get(state)) == ("RECOVERED", "RECOVERING")


def _partition_created(now: Values) -> str:
    shown = (_listed(now["replicas"]), _listed(now["isr"]), _leader(now["leader"]))
    return "".join(word + value for word, value in zip(CREATED, shown, strict=True))


def _registers(now: Values) -> str:
    return f"registers in epoch {now['broker_epoch']}{', fenced' if now.get('fenced') else ''}"


def _broker_changed(was: Values, now: Values) -> str:
    if was.get("broker_epoch") != now.get("broker_epoch"):
        # A broker that restarts within its session timeout is fenced by its new registration, and by no record before.
        unseen = f"; was unfenced in epoch {was['broker_epoch']}" if not was.get("fenced", True) else ""
        return _registers(now) + unseen
    fenced = bool(was.get("fenced")), bool(now.get("fenced"))
    shuts = bool(now.get("in_controlled_shutdown")) and not was.get("in_controlled_shutdown")
    told = [
        {(False, True): "is fenced", (True, False): "is unfenced"}.get(fenced, ""),
        "enters controlled shutdown" if shuts else "",
        _arrow("directories", was, now, "log_dirs", _listed),
        _arrow("cordoned directories", was, now, "cordoned_log_dirs", _known),
    ]
    return "; ".join(filter(None, told)) or AGAIN


def _controller_changed(was: Values, now: Values) -> str:
    before, after = was.get("incarnation_id"), now.get("incarnation_id")
    if before == after:
        return "registers again" + (f" as incarnation {after}" if after is not None else "")
    return f"registers anew: incarnation {before} → {after}"


def _voter_changed(was: Values, now: Values) -> str:
    told = [
        _arrow("endpoints", was, now, "endpoints", str),
        _arrow("versions of kraft.version", was, now, "k_raft_version_feature", str),
    ]
    return "; ".join(filter(None, told)) or AGAIN


def _level_changed(was: Values, now: Values) -> str:
    before, after = was["feature_level"], now["feature_level"]
    return f"is written again: {after}" if before == after else f"{before} → {after}"


def _config(of: Values) -> str:
    kind = str(of["resource_type"])
    kind = f"resource of type {kind}" if kind.isdecimal() else kind.lower().replace("_", " ")
    return f"{kind} {of['resource_name'] or DEFAULT}"


def _config_changed(was: Values, now: Values) -> str:
    secret = "another secret, which is not shown"
    value = now.get("value")
    return f"{now['name']}: {was.get('value')} → {value}" if value is not None else f"{now['name']}: {secret}"


BLOCK: Final = "the next block begins at "

_WORDINGS: Final[Mapping[str, Wording]] = {
    "topics": Wording(
        subject=lambda of: f"topic {of['name']}",
        first=lambda now: f"is created with id {now['topic_id']}",
        changed=lambda was, now: AGAIN,
        gone=is_removed,
    ),
    "partitions": Wording(
        subject=lambda of: f"partition {of['topic']}-{of['partition_id']}",
        first=_partition_created,
        changed=_partition_changed,
        gone=is_removed,
    ),
    "brokers": Wording(
        subject=lambda of: f"broker {of['broker_id']}",
        first=_registers,
        changed=_broker_changed,
        gone=_is_unregistered,
    ),
    "controllers": Wording(
        subject=lambda of: f"controller {of['controller_id']}",
        first=lambda now: f"registers as incarnation {now['incarnation_id']}",
        changed=_controller_changed,
        gone=_is_unregistered,
    ),
    "voters": Wording(
        subject=lambda of: f"voter {of['voter_id']}",
        first=lambda now: f"is added, with directory {now['voter_directory_id']}",
        changed=_voter_changed,
        gone=lambda was: f"is removed, with directory {was['voter_directory_id']}",
    ),
    "features": Wording(
        subject=lambda of: f"feature {of['name']}",
        first=lambda now: f"0 → {now['feature_level']}",
        changed=_level_changed,
        gone=lambda was: f"{was['feature_level']} → 0",
    ),
    "configs": Wording(
        subject=_config,
        first=lambda now: f"{now['name']}: {NOT_SET} → {now['value']}",
        changed=_config_changed,
        gone=lambda was: f"{was['name']}: {was['value']} → {NOT_SET}",
    ),
    "producer_ids": Wording(
        subject=lambda _: "producer ids",
        first=lambda now: f"{BLOCK}{now['next_producer_id']}",
        changed=lambda was, now: f"{BLOCK}{was['next_producer_id']} → {now['next_producer_id']}",
        gone=lambda was: f"are no longer kept; the next block began at {was['next_producer_id']}",
    ),
    **ACCESS_WORDINGS,
}


def _arrow(words: str, was: Values, now: Values, name: str, shown: Callable[[Value], str]) -> str:
    """Returns `words before → after`; empty if they look alike."""
    if name not in was or name not in now:
        return ""
    before, after = shown(was[name]), shown(now[name])
    return f"{words} {before} → {after}" if before != after else ""


def _list(value: Value) -> list[Value]:
    found: list[Value] = json.loads(str(value)) if value else []
    return found


def _ids(ids: Sequence[Value]) -> str:
    return ",".join(map(str, ids)) or NONE_THERE


def _listed(value: Value) -> str:
    return _ids(_list(value))


def _known(value: Value) -> str:
    return "unknown" if value is None else _listed(value)


def _directories(value: Value) -> str:
    return _ids([RESERVED.get(str(each), each) for each in _list(value)])


def _leader(value: Value) -> str:
    return NONE_THERE if value == NO_LEADER else str(value)
