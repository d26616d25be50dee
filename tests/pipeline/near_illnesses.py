"""For each finding of the doctor more logs that have it, and logs that come near: beside those of `illnesses`.

Each has its finding in the table; whatever else is found in the same log does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from quorate.metadata.configs import BROKER
from quorate.metadata.partitions import RECOVERING
from quorate.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    KRaftVersionRecord,
    LeaderChangeMessage,
    NoOpRecord,
    RemoveDelegationTokenRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from tests.pipeline.hand_made import (
    LEVELS,
    Story,
    broker,
    brokers,
    change,
    config,
    controller,
    feature,
    fenced,
    removed,
    topic,
    unfenced,
    uuid_of,
    voters,
)
from tests.pipeline.illnesses import (
    END,
    OLD,
    UNCLEAN,
    acl,
    cordoned,
    flapping,
    long_fenced,
    moving,
    placed,
    quorum,
    sound,
    token,
)
from tests.pipeline.logs import NOON_MS

Logs = Mapping[str, Callable[[], Story]]
MIN_ISR: Final = "min.insync.replicas"
AT_1: Final = KRaftVersionRecord(k_raft_version=1)


def idles(*pauses_s: float, story: Story | None = None) -> Story:
    """NoOpRecords, each so long after the one before."""
    story = story or sound()
    for pause_s in pauses_s:
        story.after(seconds=pause_s).say(NoOpRecord())
    return story


def of_broker(broker_id: int | str, value: str | None, name: str = MIN_ISR) -> ConfigRecord:
    """A dynamic config of one broker."""
    return ConfigRecord(BROKER, str(broker_id), name, value)


def unclean(leader: int) -> object:
    """The partition t-0 is led by a replica that was not in its ISR."""
    return change("t", isr=(leader,), leader=leader, leader_recovery_state=RECOVERING)


def elected(*voter_ids: int) -> LeaderChangeMessage:
    """An election of a quorum whose voters are in the nodes' files."""
    made = tuple(LeaderChangeMessage.Voter(each) for each in voter_ids)
    return LeaderChangeMessage(0, voter_ids[0], made, made)


T: Final = tuple(topic("t", [4, 5, 6]))
GONE: Final = change("t", isr=(), leader=-1)
FOUND: Final[Mapping[str, Logs]] = {
    "NO_LEADER": {
        "for a while again": lambda: sound(*T, GONE, change("t", isr=(4,), leader=4), GONE),
        "of a topic made anew": lambda: sound(
            *T, removed("t"), *topic("t", [4], generation=1), change("t", generation=1, leader=-1)
        ),
    },
    "UNDER_MIN_ISR": {
        "by the default": lambda: sound(*T, config(None, MIN_ISR, "2"), change("t", isr=(4,))),
        "by its leader's own config": lambda: sound(*T, of_broker(4, "2"), change("t", isr=(4,))),
        "its leader's before the default": lambda: sound(
            *T, config(None, MIN_ISR, "1"), of_broker(4, "3"), change("t", isr=(4, 5))
        ),
        "without a leader": lambda: sound(*T, GONE),
    },
    "UNDER_REPLICATED": {
        "a removed replica's place": lambda: sound(*T, change("t", isr=(4, 5))),
        "while another is added": lambda: sound(*T, change("t", isr=(4,), replicas=(4, 5, 6, 7), adding_replicas=(7,))),
    },
    "ELR_NOT_EMPTY": {"one": lambda: sound(*T, change("t", isr=(4, 5), eligible_leader_replicas=(6,)))},
    "RECOVERING": {"the last of two": lambda: sound(*T, unclean(5), change("t", leader_recovery_state=0), unclean(6))},
    "UNCLEAN_ELECTION": {
        "once": lambda: sound(*T, unclean(5), change("t", isr=(5, 4), leader_recovery_state=0)),
        "led by another since": lambda: sound(
            *T, unclean(5), change("t", isr=(5, 4), leader_recovery_state=0), change("t", leader=4)
        ),
    },
    "REASSIGNMENT_SLOW": {"days": lambda: moving(72)},
    "REASSIGNMENT_STUCK": {
        "the added one is unregistered": lambda: sound(
            *T, broker(7), change("t", replicas=(4, 5, 6, 7), adding_replicas=(7,)), UnregisterBrokerRecord(7, 1)
        ),
        "fewer replicas, and one that stays is away": lambda: sound(
            *T, change("t", removing_replicas=(6,)), change("t", isr=(4, 6)), fenced(5)
        ),
    },
    "ONE_REPLICA": {"all": lambda: sound(*topic("t", [4], [5]))},
    "MIN_ISR_ABOVE_REPLICAS": {
        "by the default": lambda: sound(*topic("t", [4, 5]), config(None, MIN_ISR, "3"), config("sound", MIN_ISR, "1"))
    },
    "MIN_ISR_EQUALS_REPLICAS": {"three": lambda: sound(*T, config("t", MIN_ISR, "3"))},
    "UNCLEAN_ELECTION_ENABLED": {
        "by the default": lambda: sound(config(None, UNCLEAN, "true")),
        "in capitals": lambda: sound(config("sound", UNCLEAN, "TRUE")),
    },
    "RACK_VIOLATION": {"one rack of three": lambda: sound(broker(7, rack="rack-4"), *topic("t", [4, 7]))},
    "PREFERRED_LEADER_IMBALANCE": {"one of two": lambda: sound(*topic("t", [4, 5], [4, 6]), change("t", 1, leader=6))},
    "STALE_REGISTRATION": {"a month": lambda: long_fenced(30)},
    "FENCED_WITH_REPLICAS": {"by its registration": lambda: sound(broker(6, rack="rack-6", epoch=2, fenced=True))},
    "UNREGISTERED_WITH_REPLICAS": {
        "never registered": lambda: sound(*topic("t", [4, 9])),
        "fenced before": lambda: sound(fenced(6), UnregisterBrokerRecord(6, 1)),
    },
    "OFFLINE_DIRECTORY": {"the only one": lambda: sound(*placed("gone"))},
    "FLAPPING": {"five times": lambda: flapping(5)},
    "NO_RACK": {"a second one": lambda: sound(broker(7), broker(8))},
    "CORDONED_DIRECTORIES": {"two": lambda: sound(cordoned("disk", "other"))},
    "FEATURE_BEHIND": {
        "another feature": lambda: Story(
            *(broker(each, rack="a", levels={"group.version": (0, 1)}) for each in (4, 5)), END
        ),
    },
    "BLOCKS_FEATURE": {
        "a broker": lambda: sound(feature("metadata.version", 21), broker(6, rack="rack-6", epoch=2, levels=OLD))
    },
    "FEATURE_NOT_SUPPORTED": {
        "too low": lambda: sound(broker(6, rack="rack-6", epoch=2, levels={**LEVELS, "metadata.version": (26, 27)})),
    },
    "KRAFT_VERSION_BEHIND": {"with voters": lambda: quorum(KRaftVersionRecord(k_raft_version=0), voters(1, 2, 3))},
    "CONTROLLER_SILENT": {
        "after an election": lambda: idles(*[1.0] * 3, story=idles(*[1.0] * 5).led_by(2).after(seconds=90)),
        "until an election": lambda: idles(*[1.0] * 5).after(seconds=60).led_by(2),
        "at a long interval": lambda: idles(*[30.0] * 5, 600, *[30.0] * 5),
        "and later at a longer interval": lambda: idles(*[1.0] * 5, 300, *[1.0] * 5, *[60.0] * 9),
    },
    "EVEN_VOTERS": {"two": lambda: quorum(AT_1, voters(1, 2))},
    "SINGLE_VOTER": {"the others were removed": lambda: quorum(AT_1, voters(1, 2, 3), voters(2))},
    "VOTER_WITHOUT_DIRECTORY": {"all": lambda: quorum(AT_1, voters(1, 2, 3, without_directory=[1, 2, 3]))},
    "CONFIG_OF_NOTHING": {
        "of an unregistered broker": lambda: sound(of_broker(9, "2"), broker(9), UnregisterBrokerRecord(9, 1)),
        "of a removed voter": lambda: sound(voters(1, 2, 3, 9), voters(1, 2, 3), of_broker(9, "2")),
    },
    "ACL_OF_NO_TOPIC": {"of a removed topic": lambda: sound(*T, acl("t"), removed("t"))},
    "DEPOSED_RECORDS": {
        "one, of an idle moment": lambda: sound().deposed(NoOpRecord()),
        "of a log that went on": lambda: sound().deposed(*topic("lost", [4])).after(days=1).say(*topic("kept", [4])),
    },
    "TOKEN_EXPIRED": {"an hour ago": lambda: sound(token(NOON_MS + 1)).after(hours=1).say(END)},
}
NOT_FOUND: Final[Mapping[str, Logs]] = {
    "NO_LEADER": {
        "back again": lambda: sound(*T, GONE, change("t", isr=(4,), leader=4)),
        "its topic is gone": lambda: sound(*T, GONE, removed("t")),
    },
    "UNDER_MIN_ISR": {
        "another broker's own config": lambda: sound(*T, of_broker(5, "2"), change("t", isr=(4,))),
        "its topic's before its leader's": lambda: sound(
            *T, config("t", MIN_ISR, "1"), of_broker(4, "2"), change("t", isr=(4,))
        ),
        "its leader's before the default": lambda: sound(
            *T, config(None, MIN_ISR, "2"), of_broker(4, "1"), change("t", isr=(4,))
        ),
        "its leader's is deleted": lambda: sound(*T, of_broker(4, "2"), change("t", isr=(4,)), of_broker(4, None)),
        "led by another now": lambda: sound(*T, of_broker(4, "2"), change("t", isr=(5,), leader=5)),
        "more than there are replicas": lambda: sound(*topic("t", [4]), config("t", MIN_ISR, "2")),
    },
    "UNDER_REPLICATED": {
        "joined again": lambda: sound(*T, change("t", isr=(4,)), change("t", isr=(4, 5, 6))),
        "the missing replica is given up": lambda: sound(*T, change("t", isr=(4, 5)), change("t", replicas=(4, 5))),
    },
    "ELR_NOT_EMPTY": {
        "emptied": lambda: sound(
            *T,
            change("t", isr=(4,), eligible_leader_replicas=(5,)),
            change("t", isr=(4, 5), eligible_leader_replicas=()),
        )
    },
    "RECOVERING": {"its topic is gone": lambda: sound(*T, unclean(5), removed("t"))},
    "UNCLEAN_ELECTION": {
        "of an earlier topic of that name": lambda: sound(
            *T, unclean(5), removed("t"), *topic("t", [4, 5], generation=1)
        ),
        "still recovering": lambda: sound(*T, unclean(5)),
    },
    "REASSIGNMENT_SLOW": {
        "not so long": lambda: moving(20),
        "done": lambda: moving(30).say(change("t", replicas=(4, 5, 6), isr=(4, 5, 6), adding_replicas=())),
    },
    "REASSIGNMENT_STUCK": {
        "fewer replicas, and one that goes is away": lambda: sound(
            *T, change("t", removing_replicas=(6,)), change("t", isr=(4,)), fenced(6)
        ),
        "cancelled": lambda: sound(
            *T,
            change("t", replicas=(4, 5, 6, 7), adding_replicas=(7,)),
            change("t", replicas=(4, 5, 6), adding_replicas=()),
        ),
    },
    "ONE_REPLICA": {"one in the ISR": lambda: sound(*T, change("t", isr=(4,)))},
    "MIN_ISR_ABOVE_REPLICAS": {
        "no number": lambda: sound(*topic("t", [4, 5]), config("t", MIN_ISR, "many")),
        "of one broker": lambda: sound(of_broker(4, "9")),
    },
    "MIN_ISR_EQUALS_REPLICAS": {"one of one": lambda: sound(*topic("t", [4]), config("t", MIN_ISR, "1"))},
    "UNCLEAN_ELECTION_ENABLED": {
        "its own before the default": lambda: sound(config(None, UNCLEAN, "true"), config("sound", UNCLEAN, "false"))
    },
    "RACK_VIOLATION": {"no racks": lambda: Story(broker(4), broker(5), *topic("t", [4, 5]))},
    "PREFERRED_LEADER_IMBALANCE": {
        "the preferred one is away": lambda: sound(*T, change("t", leader=5, isr=(5, 6)), fenced(4)),
        "one of ten": lambda: sound(*topic("t", *[[4, 5, 6]] * 10), change("t", 3, leader=5)),
    },
    "STALE_REGISTRATION": {
        "six days": lambda: long_fenced(6),
        "unfenced": lambda: sound(fenced(6)).after(days=9).say(unfenced(6)).after(days=1).say(END),
    },
    "FENCED_WITH_REPLICAS": {"unfenced again": lambda: sound(fenced(6), unfenced(6))},
    "UNREGISTERED_WITH_REPLICAS": {
        "registered again": lambda: sound(UnregisterBrokerRecord(6, 1), broker(6, rack="rack-6", epoch=2))
    },
    "OFFLINE_DIRECTORY": {
        "not known": lambda: sound(broker(7, rack="rack-7", log_dirs=(uuid_of("disk"),)), *topic("t", [7]))
    },
    "FLAPPING": {
        "by restarts that were announced": lambda: restarts(4),
        "long ago": lambda: flapping(5).after(days=2).say(END),
        "by fencings that Kafka writes once more": lambda: sound(*[fenced(6)] * 6),
    },
    "NO_RACK": {"gone": lambda: sound(broker(7), UnregisterBrokerRecord(7, 1))},
    "CORDONED_DIRECTORIES": {"of a broker that is gone": lambda: sound(cordoned("disk"), UnregisterBrokerRecord(6, 1))},
    "FEATURE_BEHIND": {"none above": sound},
    "BLOCKS_FEATURE": {
        "unregistered": lambda: sound(
            feature("metadata.version", 21), controller(3, OLD), UnregisterControllerRecord(3)
        )
    },
    "FEATURE_NOT_SUPPORTED": {"off again": lambda: sound(feature("group.version", 1), feature("group.version", 0))},
    "KRAFT_VERSION_BEHIND": {"upgraded": lambda: quorum(KRaftVersionRecord(k_raft_version=0), AT_1)},
    "CONTROLLER_SILENT": {
        "a longer interval by another controller": lambda: idles(*[60.0] * 9, story=idles(*[1.0] * 9).led_by(2)),
        "a longer interval": lambda: idles(*[1.0] * 9, *[60.0] * 9),
        "a longer interval than before a failure": lambda: idles(
            *[20.0] * 9, story=idles(*[0.5] * 30).after(seconds=2).led_by(2)
        ),
        "switched off": lambda: idles(*[1.0] * 9).led_by(2).after(hours=3).say(END).after(hours=3).say(END),
        "switched off in an epoch": lambda: idles(*[1.0] * 9).after(hours=3).say(END).after(hours=3).say(END),
        "off, and on again": lambda: idles(
            *[1.0] * 9, story=idles(*[1.0] * 9).led_by(2).after(hours=3).say(END).after(seconds=5).led_by(3)
        ),
        "none before": lambda: idles(*[1.0] * 9, story=sound().after(hours=1).say(END)),
        "less than four intervals": lambda: idles(*[30.0] * 5, 100, *[30.0] * 5),
    },
    "EVEN_VOTERS": {"five": lambda: quorum(AT_1, voters(1, 2, 3, 4, 5))},
    "SINGLE_VOTER": {"two": lambda: quorum(AT_1, voters(1, 2))},
    "VOTER_WITHOUT_DIRECTORY": {
        "known now": lambda: quorum(AT_1, voters(1, 2, 3, without_directory=[2]), voters(1, 2, 3))
    },
    "CONFIG_OF_NOTHING": {
        "of a voter that does not register": lambda: Story(
            KRaftVersionRecord(k_raft_version=1),
            voters(1, 2, 3001),
            feature("metadata.version", 14),
            *brokers(4),
            of_broker(3001, "2"),
        ),
        "of a voter of the nodes' files": lambda: Story(
            elected(1, 2, 3001), feature("metadata.version", 14), *brokers(4), of_broker(3001, "2")
        ),
        "of a fenced broker": lambda: sound(fenced(6), of_broker(6, "2")),
        "of all brokers": lambda: sound(config(None, "a", "1")),
        "deleted": lambda: sound(of_broker(9, "2"), of_broker(9, None)),
    },
    "ACL_OF_NO_TOPIC": {"made since": lambda: sound(acl("t"), *T)},
    "DEPOSED_RECORDS": {
        "which of the logs won is not known": lambda: sound().deposed(END, voted_since=1),
        "the next leader has them": lambda: sound(END).deposed(),
        "only the next leader's log is longer": lambda: sound().deposed().after(days=1).say(*T),
    },
    "TOKEN_EXPIRED": {
        "removed": lambda: sound(token(NOON_MS)).after(days=2).say(RemoveDelegationTokenRecord("token-1"))
    },
}


def restarts(times: int) -> Story:
    """Each is announced."""
    story = sound()
    for _ in range(times):
        story.say(BrokerRegistrationChangeRecord(6, 1, in_controlled_shutdown=1)).after(minutes=1).say(fenced(6))
        story.after(minutes=1).say(broker(6, rack="rack-6", fenced=True), unfenced(6))
    return story
