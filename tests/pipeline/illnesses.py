"""What may ail a cluster, for the fleet doctor: of each finding a log that has it, and one that nearly has.

The logs begin as a sound cluster's (`sound`) and differ in as little as may be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kraft import Message
from quorate.metadata.configs import BROKER
from quorate.metadata.partitions import RECOVERING
from quorate.nouns import LOST_DIRECTORY, uuid_text
from quorate.records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    DelegationTokenRecord,
    KRaftVersionRecord,
    NoOpRecord,
    PartitionRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from tests.pipeline.hand_made import (
    LEVELS,
    Ranges,
    Story,
    broker,
    brokers,
    change,
    config,
    controller,
    feature,
    fenced,
    topic,
    unfenced,
    uuid_of,
    voters,
)
from tests.pipeline.logs import NOON_MS

OLD: Final[Ranges] = {**LEVELS, "metadata.version": (7, 21)}
UNCLEAN: Final = "unclean.leader.election.enable"
OFFLINE: Final = sorted(("AAAAAAAAAAAAAAAAAAAAAg", uuid_text(uuid_of("gone"))))
END: Final = config(None, "a", "b")
"""A last record, so that time has gone by."""


class Case(NamedTuple):
    """A finding: its code, the subject and the sentence; a log that has it, and one that has it not."""

    code: str
    severity: str
    subject: str
    sentence: str
    ill: Callable[[], Story]
    well: Callable[[], Story]


def sound(*records: Message) -> Story:
    """Three brokers in three racks and three controllers, all there and up to date; and these records."""
    story = Story(KRaftVersionRecord(k_raft_version=1), voters(1, 2, 3), feature("metadata.version", 25))
    story.say(*(controller(each) for each in (1, 2, 3)), *brokers(4, 5, 6))
    return story.say(*topic("sound", [4, 5, 6], [5, 6, 4], [6, 4, 5])).say(*records)


def quorum(*records: Message) -> Story:
    """The beginning of a log, with other voters than the sound ones."""
    return Story(*records, feature("metadata.version", 25), *brokers(4, 5, 6), END)


def long_fenced(days: float) -> Story:
    """Fenced for so long; in between it registers again, and is not let in."""
    story = sound(fenced(6)).after(days=1).say(broker(6, rack="rack-6", epoch=2, fenced=True))
    return story.after(days=days - 1).say(END)


def fenced_beside_a_wrong_clock(days: float) -> Story:
    """Fenced for so long; meanwhile a controller whose clock is 70 years ahead leads, and writes a record."""
    story = sound(fenced(6)).led_by(2).after(days=365 * 70).say(END)
    return story.after(days=days - 365 * 70).led_by(3).say(END)


def two_lives() -> Story:
    """Broker 7 was fenced when it was unregistered; an hour later it registers again, and is not let in."""
    story = sound(broker(7, rack="rack-7", fenced=True)).after(minutes=1).say(UnregisterBrokerRecord(7, 1))
    story.after(hours=1).say(broker(7, rack="rack-7", epoch=2, fenced=True), *topic("t", [7]))
    return story.say(change("t", leader=-1)).after(minutes=1).say(END)


def fenced_and_gone() -> Story:
    """Broker 7 was fenced, its partition lost its leader, and an hour later it was unregistered."""
    story = sound(broker(7, rack="rack-7"), *topic("t", [7])).after(minutes=1)
    story.say(fenced(7), change("t", leader=-1)).after(hours=1)
    return story.say(UnregisterBrokerRecord(7, 1))


def flapping(times: int) -> Story:
    """Fenced as often in an hour; and once more in a restart that was announced."""
    story = sound(BrokerRegistrationChangeRecord(6, 1, in_controlled_shutdown=1), fenced(6))
    story.say(broker(6, rack="rack-6", fenced=True), unfenced(6))
    for _ in range(times):
        story.after(minutes=10).say(fenced(6)).after(minutes=10).say(unfenced(6))
    return story


def moving(hours: float, *, paused: bool = False) -> Story:
    """A reassignment that has been under way for so long."""
    story = sound(*topic("t", [4, 5])).after(hours=1)
    story.say(change("t", replicas=(4, 5, 6), adding_replicas=(6,))).after(hours=hours / 2)
    if paused:
        story.say(change("t", replicas=(4, 5), adding_replicas=()))
        story.say(change("t", replicas=(6, 4, 5), adding_replicas=(6,)))
    return story.say(change("t", leader=5)).after(hours=hours / 2).say(END)


def acl(name: str, pattern_type: int = 3, resource_type: int = 2) -> Message:
    """Alice may read it."""
    return AccessControlEntryRecord(uuid_of("acl"), resource_type, name, pattern_type, "User:alice", "*", 3, 3)


def token(expires_ms: int) -> Message:
    """Alice's token."""
    return DelegationTokenRecord("User:alice", "User:alice", (), NOON_MS, NOON_MS * 2, expires_ms, "token-1")


def cordoned(*directories: str) -> Message:
    """Broker 6 wants no more replicas there."""
    found = tuple(uuid_of(each) for each in directories)
    return BrokerRegistrationChangeRecord(6, 1, cordoned_log_dirs=found)


def placed(*directories: str) -> list[Message]:
    """A topic on broker 7 alone, which has the directory `disk`; its replicas lie in these, or a lost one."""
    ids = [LOST_DIRECTORY if each == "lost" else uuid_of(each) for each in directories]
    changes = [change("t", number, directories=(each,)) for number, each in enumerate(ids)]
    return [broker(7, rack="rack-7", log_dirs=(uuid_of("disk"),)), *topic("t", *([7] for _ in ids)), *changes]


def idle(*, silent_s: float) -> Story:
    """A controller that idles, and writes a NoOpRecord each second; but for once."""
    story = sound()
    for pause_s in (*[1.0] * 5, silent_s, *[1.0] * 5):
        story.after(seconds=pause_s).say(NoOpRecord())
    return story


CASES: Final = (
    # Partitions.
    Case(
        "NO_LEADER",
        "error",
        "partition t-0",
        "has no leader, the last was broker 4; replicas 4,5; ISR none, until 2026-11-21 12:00:00.000 it was 4,5; ELR 5",
        lambda: sound(
            *topic("t", [4, 5]),
            change("t", isr=(), leader=-1, eligible_leader_replicas=(5,), last_known_elr=(4,)),
        ),
        lambda: sound(*topic("t", [4, 5]), change("t", isr=(5,), leader=5)),
    ),
    Case(
        "UNDER_MIN_ISR",
        "error",
        "partition t-0",
        "takes no writes with acks=all: "
        "replicas 4,5,6; ISR 4, until 2026-11-21 12:00:00.000 it was 4,5,6; min.insync.replicas 2",
        lambda: sound(*topic("t", [4, 5, 6]), config("t", "min.insync.replicas", "2"), change("t", isr=(4,))),
        lambda: sound(*topic("t", [4, 5, 6]), config("t", "min.insync.replicas", "2"), change("t", isr=(4, 5))),
    ),
    Case(
        "UNDER_REPLICATED",
        "warn",
        "partition t-0",
        "has a replica that is not in the ISR: replicas 4,5; ISR 4, until 2026-11-21 12:00:00.000 it was 4,5",
        lambda: sound(*topic("t", [4, 5]), change("t", isr=(4,))),
        lambda: sound(*topic("t", [4, 5]), change("t", replicas=(4, 5, 6), adding_replicas=(6,))),
    ),
    Case(
        "ELR_NOT_EMPTY",
        "info",
        "partition t-0",
        "brokers 5,6 are eligible to lead without being in the ISR (KIP-966)",
        lambda: sound(*topic("t", [4, 5, 6]), change("t", isr=(4,), eligible_leader_replicas=(5, 6))),
        lambda: sound(*topic("t", [4, 5, 6]), change("t", isr=(4,))),
    ),
    Case(
        "RECOVERING",
        "warn",
        "partition t-0",
        "has not recovered from an unclean election (KIP-704); leader 5",
        lambda: sound(*topic("t", [4, 5]), change("t", isr=(5,), leader=5, leader_recovery_state=RECOVERING)),
        lambda: sound(
            *topic("t", [4, 5]),
            change("t", isr=(5,), leader=5, leader_recovery_state=RECOVERING),
            change("t", leader_recovery_state=0),
        ),
    ),
    Case(
        "UNCLEAN_ELECTION",
        "warn",
        "partition t-0",
        "was led by broker 6 from 2026-11-21 13:00:00.000 on, elected in the last of 2 unclean elections, and has"
        " recovered since: records may be lost",
        lambda: (
            sound(*topic("t", [4, 5, 6]), change("t", isr=(5,), leader=5, leader_recovery_state=RECOVERING))
            .after(hours=1)
            .say(change("t", isr=(6,), leader=6), change("t", isr=(6, 4), leader_recovery_state=0))
        ),
        lambda: sound(
            *topic("t", [4, 5]),
            change("t", isr=(), leader=-1, eligible_leader_replicas=(5,)),
            change("t", isr=(5,), leader=5, eligible_leader_replicas=()),
        ),
    ),
    Case(
        "REASSIGNMENT_SLOW",
        "warn",
        "partition t-0",
        "has been reassigned for 30.0 hours: adding 6, removing none",
        lambda: moving(30),
        lambda: moving(30, paused=True),
    ),
    Case(
        "REASSIGNMENT_STUCK",
        "error",
        "partition t-0",
        "cannot be reassigned, as brokers 6 are not there: adding 6, removing 5",
        lambda: sound(
            *topic("t", [4, 5]),
            change("t", replicas=(4, 6, 5), adding_replicas=(6,), removing_replicas=(5,)),
            fenced(6),
        ),
        lambda: sound(
            *topic("t", [4, 5]),
            change("t", replicas=(4, 6, 5), adding_replicas=(6,), removing_replicas=(5,)),
            fenced(5),
        ),
    ),
    # Topics.
    Case(
        "ONE_REPLICA",
        "warn",
        "topic t",
        "1 of 2 partitions has one replica",
        lambda: sound(*topic("t", [4], [5, 6])),
        lambda: sound(*topic("t", [4, 5], [5, 6])),
    ),
    Case(
        "MIN_ISR_ABOVE_REPLICAS",
        "warn",
        "topic t",
        "min.insync.replicas is 3, and there are 2 replicas",
        lambda: sound(*topic("t", [4, 5]), config("t", "min.insync.replicas", "3")),
        lambda: sound(*topic("t", [4, 5]), config("t", "min.insync.replicas", "2")),
    ),
    Case(
        "MIN_ISR_EQUALS_REPLICAS",
        "warn",
        "topic t",
        "min.insync.replicas is 2, and so is the number of replicas",
        lambda: sound(*topic("t", [4, 5]), config(None, "min.insync.replicas", "2")),
        lambda: sound(*topic("t", [4, 5]), config("t", "min.insync.replicas", "1")),
    ),
    Case(
        "UNCLEAN_ELECTION_ENABLED",
        "warn",
        "topic t",
        "unclean.leader.election.enable is true",
        lambda: sound(*topic("t", [4, 5]), config("t", UNCLEAN, "true")),
        lambda: sound(
            *topic("t", [4, 5]),
            config("t", UNCLEAN, "true"),
            config("t", UNCLEAN, "false"),
        ),
    ),
    Case(
        "RACK_VIOLATION",
        "warn",
        "topic t",
        "1 of 2 partitions are on fewer racks than there are, 1 of them on a single one",
        lambda: sound(broker(7, rack="rack-6"), *topic("t", [6, 7], [5, 7])),
        lambda: sound(broker(7, rack="rack-6"), *topic("t", [4, 7], [4, 5, 6, 7])),
    ),
    # Brokers.
    Case(
        "PREFERRED_LEADER_IMBALANCE",
        "warn",
        "broker 4",
        "2 of 3 partitions that it should lead are led by others",
        lambda: sound(*topic("t", [4, 5], [4, 6]), change("t", 0, leader=5), change("t", 1, leader=6)),
        lambda: sound(
            *topic("t", [4, 5], [4, 6], [6, 5]),
            *(change("t", each, leader=-1) for each in (0, 1)),
            change("t", 2, leader=5),
            fenced(6),
        ),
    ),
    Case(
        "STALE_REGISTRATION",
        "warn",
        "broker 6",
        "has been fenced for 8.0 days",
        lambda: long_fenced(8),
        lambda: fenced_beside_a_wrong_clock(6),
    ),
    Case(
        "FENCED_WITH_REPLICAS",
        "warn",
        "broker 6",
        "is fenced and holds 3 replicas",
        lambda: sound(fenced(6)),
        lambda: sound(broker(7, rack="rack-7", fenced=True)),
    ),
    Case(
        "UNREGISTERED_WITH_REPLICAS",
        "error",
        "broker 6",
        "is not registered and holds 3 replicas",
        lambda: sound(UnregisterBrokerRecord(6, 1)),
        lambda: sound(broker(7, rack="rack-7"), UnregisterBrokerRecord(7, 1)),
    ),
    Case(
        "OFFLINE_DIRECTORY",
        "error",
        "broker 7",
        f"has 2 replicas in directories that are offline: {','.join(OFFLINE)}",
        lambda: sound(*placed("disk", "lost", "gone")),
        lambda: sound(*placed("disk", "disk")),
    ),
    Case("FLAPPING", "warn", "broker 6", "was fenced 3 times within a day", lambda: flapping(3), lambda: flapping(2)),
    Case(
        "NO_RACK",
        "warn",
        "broker 7",
        "has no rack, though others have",
        lambda: sound(broker(7)),
        lambda: Story(broker(7), broker(8), *topic("t", [7, 8])),
    ),
    Case(
        "CORDONED_DIRECTORIES",
        "info",
        "broker 6",
        f"gets no new replicas in {uuid_text(uuid_of('disk'))}",
        lambda: sound(cordoned("disk")),
        lambda: sound(cordoned("disk"), cordoned()),
    ),
    # Features.
    Case(
        "FEATURE_BEHIND",
        "info",
        "feature metadata.version",
        "is at 21 (3.9-IV0); all nodes support 25 (4.0-IV3)",
        lambda: sound(feature("metadata.version", 21)),
        lambda: sound(feature("metadata.version", 21), controller(3, OLD)),
    ),
    Case(
        "BLOCKS_FEATURE",
        "warn",
        "controller 3",
        "supports metadata.version from 7 (3.3-IV3) to 21 (3.9-IV0), others up to 25 (4.0-IV3)",
        lambda: sound(feature("metadata.version", 21), controller(3, OLD)),
        lambda: Story(*(broker(each, rack="a", levels=OLD) for each in (4, 5)), feature("metadata.version", 21)),
    ),
    Case(
        "FEATURE_NOT_SUPPORTED",
        "error",
        "broker 6",
        "supports group.version from 0 to 0, and it is at 1",
        lambda: Story(
            *(broker(each, levels={"group.version": (0, 1)}) for each in (4, 5)), broker(6), feature("group.version", 1)
        ),
        lambda: Story(*(broker(each, levels={"group.version": (0, 1)}) for each in (4, 5)), broker(6)),
    ),
    Case(
        "KRAFT_VERSION_BEHIND",
        "warn",
        "feature kraft.version",
        "is at 0; all nodes support 1",
        lambda: quorum(KRaftVersionRecord(k_raft_version=0)),
        lambda: quorum(KRaftVersionRecord(k_raft_version=1)),
    ),
    # The quorum.
    Case(
        "CONTROLLER_SILENT",
        "warn",
        "quorum",
        "no controller wrote for 540.0 s: from offset 17 in epoch 1 until offset 18 in epoch 1",
        lambda: idle(silent_s=540),
        lambda: idle(silent_s=9),
    ),
    Case(
        "EVEN_VOTERS",
        "warn",
        "quorum",
        "4 voters (1,2,3,4): they tolerate no more failures than one voter less",
        lambda: quorum(KRaftVersionRecord(k_raft_version=1), voters(4, 2, 3, 1)),
        lambda: quorum(KRaftVersionRecord(k_raft_version=1), voters(4, 2, 3, 1), voters(1, 2, 3)),
    ),
    Case(
        "SINGLE_VOTER",
        "warn",
        "quorum",
        "one voter (1): no failure is tolerated",
        lambda: quorum(KRaftVersionRecord(k_raft_version=1), voters(1)),
        lambda: quorum(KRaftVersionRecord(k_raft_version=1), voters(1), voters(1, 2, 3)),
    ),
    Case(
        "VOTER_WITHOUT_DIRECTORY",
        "warn",
        "quorum",
        "voters 2 have no directory id at kraft.version 1",
        lambda: quorum(KRaftVersionRecord(k_raft_version=1), voters(1, 2, 3, without_directory=[2])),
        lambda: quorum(KRaftVersionRecord(k_raft_version=0), voters(1, 2, 3, without_directory=[1, 2, 3])),
    ),
    # Configs, ACLs, tokens.
    Case(
        "CONFIG_OF_NOTHING",
        "info",
        "topic gone",
        "there is none of that name, and it has configs: a,b",
        lambda: sound(config("gone", "a", "1"), config("gone", "b", "2"), config(None, "a", "1")),
        lambda: sound(
            config("sound", "a", "1"),
            controller(3001),
            *(ConfigRecord(BROKER, node_id, "a", "1") for node_id in ("4", "3001")),
            ConfigRecord(16, "x", "a", "1"),
        ),
    ),
    Case(
        "ACL_OF_NO_TOPIC",
        "info",
        f"acl {uuid_text(uuid_of('acl'))}",
        "is about topic gone, which there is not, and principal User:alice",
        lambda: sound(acl("gone")),
        lambda: sound(acl("gone", pattern_type=4)),
    ),
    # Records that were never committed.
    Case(
        "DEPOSED_RECORDS",
        "info",
        "epoch 1",
        "2 records of epoch 1 were never committed: offsets 13 to 14 of "
        "LOGS/DEPOSED_RECORDS-ill/3/__cluster_metadata-0/00000000000000000000.log",
        lambda: sound().deposed(NoOpRecord(), END),
        lambda: sound().deposed(),
    ),
    Case(
        "TOKEN_EXPIRED",
        "info",
        "delegation token token-1",
        "expired 2.0 days ago; owner User:alice",
        lambda: sound(token(NOON_MS)).after(days=2).say(END),
        lambda: sound(token(NOON_MS + 3 * 86_400_000)).after(days=2).say(END),
    ),
)
OTHERS_WELL: Final[dict[str, Callable[[], Story]]] = {
    "acl-of-a-topic": lambda: sound(acl("sound")),
    "acl-of-all-topics": lambda: sound(acl("*")),
    "acl-of-a-group": lambda: sound(acl("gone", resource_type=3)),
    "all-sound": lambda: sound().after(days=30).say(END),
}


def _began(*before: Message, condition: Message, after: tuple[Message, ...]) -> tuple[Story, int]:
    """A story in which `condition` begins something an hour in, and `after` changes other fields; and its offset."""
    story = sound(*topic("t", [4, 5, 6])).after(hours=1).say(*before)
    offset = len(story.logged())
    story.after(hours=1).say(condition)
    for each in after:
        story.after(hours=1).say(each)
    return story, offset


def _born(
    records: list[Message], *, after: tuple[Message, ...], begins: int = 1, before: tuple[Message, ...] = ()
) -> tuple[Story, int]:
    """A story in which something holds from a topic's creation on; `begins` is the place among its records."""
    story = sound(*before).after(hours=1)
    offset = len(story.logged()) + begins
    story.say(*records)
    for each in after:
        story.after(hours=1).say(each)
    return story, offset


_SHRUNK: Final = change("t", isr=(4,))
_OTHER_FIELDS: Final = (change("t", leader=4), change("t", directories=(uuid_of("x"), uuid_of("y"), uuid_of("z"))))
BEGINS: Final[dict[str, tuple[Story, int]]] = {
    "NO_LEADER": _began(
        change("t", isr=(4, 5)),
        change("t", isr=(4,), leader=4, eligible_leader_replicas=(5,)),
        condition=change("t", isr=(), leader=-1, eligible_leader_replicas=(4, 5)),
        after=(change("t", eligible_leader_replicas=(4,)), *_OTHER_FIELDS[1:]),
    ),
    "UNDER_REPLICATED": _began(
        _SHRUNK, change("t", isr=(4, 5, 6)), condition=change("t", isr=(4, 5)), after=(_SHRUNK,)
    ),
    # The ISR was as small before: the config makes it too small.
    "UNDER_MIN_ISR": _began(
        _SHRUNK, condition=config("t", "min.insync.replicas", "2"), after=(*_OTHER_FIELDS, config("t", "a", "b"))
    ),
    # From its creation, though other fields change.
    "ONE_REPLICA": _born(topic("t", [4]), after=(change("t", directories=(uuid_of("x"),)),)),
    "MIN_ISR_EQUALS_REPLICAS": _born(
        [*topic("t", [4, 5]), config("t", "min.insync.replicas", "2")],
        begins=2,
        after=(change("t", isr=(4,)), change("t", isr=(4, 5)), config("t", "a", "b")),
    ),
    # A reassignment has left one of its replicas.
    "ONE_REPLICA again": _began(
        *topic("u", [4, 5]), condition=change("u", replicas=(4,), isr=(4,)), after=(change("u", leader=4),)
    ),
    "MIN_ISR_ABOVE_REPLICAS": _began(
        config("t", "min.insync.replicas", "2"),
        condition=config("t", "min.insync.replicas", "4"),
        after=(config("t", "min.insync.replicas", "5"), change("t", isr=(4,))),
    ),
    "CORDONED_DIRECTORIES": _began(
        condition=cordoned("a"), after=(fenced(6), unfenced(6), broker(6, rack="rack-6", epoch=2), cordoned("b"))
    ),
    "PREFERRED_LEADER_IMBALANCE": _began(
        *topic("u", [4, 5]), condition=change("u", leader=5), after=(change("u", isr=(5,)), change("u", isr=(5, 4)))
    ),
    # The default is set later, and then again; between, the topic's own config forbids it.
    "UNCLEAN_ELECTION_ENABLED": _began(
        config("sound", UNCLEAN, "false"),
        config("t", UNCLEAN, "true"),
        config("t", UNCLEAN, "false"),
        config(None, UNCLEAN, "true"),
        condition=config("t", UNCLEAN, None),
        after=(config(None, UNCLEAN, "TRUE"), config("t", UNCLEAN, "true"), config("t", UNCLEAN, None)),
    ),
    "UNCLEAN_ELECTION_ENABLED born": _born(
        [*topic("u", [4]), config("u", "a", "b")],
        begins=0,
        after=(config("u", "a", "c"), change("u", leader=4)),
        before=(config(None, UNCLEAN, "true"), config("sound", UNCLEAN, "false")),
    ),
    # The replicas stay where they are: a broker comes back in the rack of another one.
    "RACK_VIOLATION": _began(
        *topic("u", [4, 5]),
        condition=broker(5, rack="rack-4", epoch=2),
        after=(change("u", isr=(4,)), fenced(5, 2), broker(7, rack="rack-6"), broker(5, rack="rack-4", epoch=3)),
    ),
    # A third rack is there only now, so that two are too few.
    "RACK_VIOLATION more": _began(
        broker(7, rack="rack-4"),
        *topic("u", [4, 7, 5]),
        UnregisterBrokerRecord(6, 1),
        condition=broker(6, rack="rack-6", epoch=2),
        after=(change("u", isr=(4, 7)), change("u", replicas=(4, 5, 7)), broker(7, rack="rack-4", epoch=2)),
    ),
    "RECOVERING": _began(
        change("t", isr=(5,), leader=5, leader_recovery_state=RECOVERING),
        change("t", leader_recovery_state=0),
        condition=change("t", isr=(6,), leader=6, leader_recovery_state=RECOVERING),
        after=(change("t", replicas=(6, 4, 5)),),
    ),
}
"""Of each code a log in which the finding began at an offset, and in which other fields changed afterwards."""


def never_led() -> Story:
    """A partition that has no leader where the log begins; the controller noted who led last."""
    nobody = PartitionRecord(0, uuid_of("t"), (4, 5), (), (), (), -1, 0, 0, 0, last_known_elr=(5,))
    return sound(TopicRecord("t", uuid_of("t")), nobody)
