"""ElectLeaders (43)."""

from __future__ import annotations

from typing import Any

from kraft import Uuid
from kraft.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from quorate.controller.commands.elect_leaders import elect_leaders
from quorate.controller.engine.decision import RECORDS_PER_WRITE_MAX, Command
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.partitions import NO_LEADER, RECOVERING
from quorate.nouns import LOST_DIRECTORY
from quorate.records import PartitionChangeRecord
from tests.controller.clusters import Cluster, directory, uuid
from tests.controller.tables.table import Row, Table
from tests.controller.test_caps import cluster as big

PREFERRED, UNCLEAN = 0, 1
Asked = ElectLeadersRequest.TopicPartitions
Result = ElectLeadersResponse.ReplicaElectionResult
Partition = Result.PartitionResult
T, APES, BIRDS = uuid(1000), uuid(1003), uuid(1002)


def moved(level: int = 25) -> Cluster:
    """Brokers 1, 2. t-0 is on 1, 2, led by 2, both in sync; t-1 is on 2, 1, led by 2."""
    cluster = Cluster(level).brokers(1, 2)
    cluster.topic("t", [1, 2], [2, 1])
    cluster.change(1, ControlState.FENCED)
    cluster.change(1, ControlState.UNFENCED)
    cluster.rejoin("t", 0, 1)
    cluster.rejoin("t", 1, 1)
    return cluster


def moved_before_3_6() -> Cluster:
    """The same at 3.5-IV2."""
    return moved(11)


def first_behind() -> Cluster:
    """The same, 1 is not in sync."""
    cluster = moved()
    cluster.alter_isr("t", (2,))
    return cluster


def first_leaves() -> Cluster:
    """The same, 1 is in controlled shutdown, and still in sync, as no controller leaves it."""
    cluster = moved()
    cluster.topic("u", [1])
    cluster.change(1, ControlState.CONTROLLED_SHUTDOWN)
    cluster.apply([PartitionChangeRecord(0, T, isr=(1, 2))])
    return cluster


def first_offline() -> Cluster:
    """The same, the log directory of 1's replica of t-0 has failed, and nobody has reported it yet."""
    cluster = moved()
    cluster.apply([PartitionChangeRecord(0, T, directories=(LOST_DIRECTORY, directory(2)))])
    return cluster


def second_in_sync_and_not_leading() -> Cluster:
    """t-0 on 1, 2; nobody leads, 2 is in sync and there, as no controller leaves it."""
    cluster = first_behind()
    cluster.apply([PartitionChangeRecord(0, T, leader=NO_LEADER)])
    return cluster


def nobody_there(*, elr: bool = False) -> Cluster:
    """t-0 on 1, 2: 2 went first, and then 1, which alone has all records."""
    cluster = Cluster(25, elr=elr).brokers(1, 2)
    cluster.topic("t", [1, 2])
    cluster.change(2, ControlState.FENCED)
    cluster.change(1, ControlState.FENCED)
    return cluster


def second_is_back() -> Cluster:
    """t-0 on 1, 2: 1 went last, and is away; 2 is back, and nobody leads."""
    cluster = nobody_there()
    cluster.unfence(2)
    return cluster


def second_is_back_with_elr() -> Cluster:
    """t-0 on 1, 2, with ELR: 1 is eligible, and away; 2 is back, and nobody leads."""
    cluster = nobody_there(elr=True)
    cluster.unfence(2)
    return cluster


def second_is_back_and_first_in_doubt() -> Cluster:
    """t-0 on 1, 2, with ELR: 1 led last, stopped uncleanly, and is away; 2 is back, and nobody leads."""
    cluster = nobody_there(elr=True)
    cluster.register(1, incarnation=1)
    cluster.unfence(2)
    return cluster


def mixed() -> Cluster:
    """Not led by the preferred: apes-0, apes-1 (behind), birds-2 (away). By nobody: birds-0 (3 is there), birds-1."""
    cluster = Cluster(25).brokers(1, 2, 3, 4, 5)
    topics = {
        "zoo": [[1, 2]],
        "cats": [[2, 3]],
        "birds": [[4, 3], [4, 5], [4, 2]],
        "apes": [[1, 2], [1, 2], [3, 1]],
    }
    for name, replicas in topics.items():
        cluster.topic(name, *replicas)
    cluster.alter_isr("birds", (4,), 0)
    for gone in (5, 4):
        cluster.change(gone, ControlState.FENCED)
    cluster.apply(PartitionChangeRecord(number, APES, leader=2) for number in (0, 1))
    cluster.alter_isr("apes", (2,), 1)
    return cluster


def mixed_again() -> Cluster:
    """As before, when the preferred leaders have been elected where they could be: apes-0."""
    cluster = mixed()
    cluster.write(command(cluster, of_all(PREFERRED)))
    return cluster


def very_many() -> Cluster:
    """Topic big: 10,001 partitions on 1, 2, led by 2, both in sync."""
    return big(partitions=RECORDS_PER_WRITE_MAX + 1)


def asked(election: int, *topics: Asked) -> ElectLeadersRequest:
    return ElectLeadersRequest(election_type=election, topic_partitions=topics)


def of_all(election: int) -> ElectLeadersRequest:
    return ElectLeadersRequest(election_type=election, topic_partitions=None)


def of(name: str, *partitions: int) -> Asked:
    return Asked(name, partitions)


def told(*results: Result) -> ElectLeadersResponse:
    return ElectLeadersResponse(replica_election_results=results)


def result(name: str, **codes: ErrorCode) -> Result:
    """Of each partition: p0, p7."""
    return Result(name, tuple(Partition(int(number[1:]), int(code), None) for number, code in codes.items()))


def led(leader: int, number: int = 0, topic_id: Uuid = T, **others: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(number, topic_id, leader=leader, **others)


def command(cluster: Cluster, request: ElectLeadersRequest) -> Command[Any]:
    return elect_leaders(request, settings=cluster.settings)


NONE, NOT_NEEDED, UNKNOWN = ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_THERE, NOBODY = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
ELECT, ALL = "ReplicationControlManager.electLeader", "ReplicationControlManager.electLeaders"
FIRST = "PartitionChangeBuilder.electPreferredLeader"
VALID = "PartitionChangeBuilder.isValidNewLeader"
ANY = "PartitionChangeBuilder.electAnyLeader"

TABLE = Table(
    api="ElectLeaders",
    kafka="ReplicationControlManager.electLeaders (KIP-460)",
    command=command,
    given=moved,
    rows=(
        Row(
            case="the preferred leader",
            rule=f"{FIRST}: the first replica, where it is in sync. The leader epoch rises (KIP-460).",
            request=asked(PREFERRED, of("t", 0)),
            records=(led(1),),
            answer=told(result("t", p0=NONE)),
        ),
        Row(
            case="the preferred leader, before 3.6",
            rule="PartitionChangeBuilder.triggerLeaderEpochBumpForIsrShrinkIfNeeded: the ISR stays, so that is all.",
            given=moved_before_3_6,
            request=asked(PREFERRED, of("t", 0)),
            records=(led(1),),
            answer=told(result("t", p0=NONE)),
        ),
        Row(
            case="the preferred leader leads",
            rule=f"{ELECT}: nothing to be done.",
            request=asked(PREFERRED, of("t", 1)),
            answer=told(result("t", p1=NOT_NEEDED)),
        ),
        Row(
            case="the preferred leader is not in sync",
            rule=f"{FIRST}: whoever leads goes on, and then there is no record.",
            given=first_behind,
            request=asked(PREFERRED, of("t", 0)),
            answer=told(result("t", p0=NOT_THERE)),
        ),
        Row(
            case="the preferred leader is in controlled shutdown",
            rule=f"{VALID}: in the ISR is not enough, it has to be active.",
            given=first_leaves,
            request=asked(PREFERRED, of("t", 0)),
            answer=told(result("t", p0=NOT_THERE)),
        ),
        Row(
            case="the preferred leader's log directory is offline",
            rule=f"{VALID}: in the ISR is not enough, its directory has to be online (KIP-858).",
            given=first_offline,
            request=asked(PREFERRED, of("t", 0)),
            answer=told(result("t", p0=NOT_THERE)),
        ),
        Row(
            case="the preferred leader cannot, and nobody leads",
            rule=f"{FIRST}: of the others the first that may. There is a leader anew, so it is no error.",
            given=second_in_sync_and_not_leading,
            request=asked(PREFERRED, of("t", 0)),
            records=(led(2),),
            answer=told(result("t", p0=NONE)),
        ),
        Row(
            case="the preferred leader, where nobody is there",
            rule=f"{FIRST}: nobody can lead, and no unclean leader is asked for.",
            given=second_is_back,
            request=asked(PREFERRED, of("t", 0)),
            answer=told(result("t", p0=NOT_THERE)),
        ),
        Row(
            case="anybody, where somebody leads",
            rule=f"{ELECT}: an unclean election is for partitions without a leader.",
            request=asked(UNCLEAN, of("t", 0)),
            answer=told(result("t", p0=NOT_NEEDED)),
        ),
        Row(
            case="anybody",
            rule=f"{ANY}: the first replica that is there is the ISR, and has to recover (KIP-704).",
            given=second_is_back,
            request=asked(UNCLEAN, of("t", 0)),
            records=(led(2, isr=(2,), leader_recovery_state=RECOVERING),),
            answer=told(result("t", p0=NONE)),
        ),
        Row(
            case="anybody, past one that is eligible and away",
            rule="PartitionChangeBuilder.maybeUpdateRecordElr: with an unclean leader the ELR ends (KIP-966).",
            given=second_is_back_with_elr,
            request=asked(UNCLEAN, of("t", 0)),
            records=(
                led(
                    2,
                    isr=(2,),
                    leader_recovery_state=RECOVERING,
                    eligible_leader_replicas=(),
                    last_known_elr=(),
                ),
            ),
            answer=told(result("t", p0=NONE)),
        ),
        Row(
            case="anybody, past the last known leader, which is away",
            rule="PartitionChangeBuilder.canElectLastKnownLeader: it is not there; and then it is forgotten (KIP-966).",
            given=second_is_back_and_first_in_doubt,
            request=asked(UNCLEAN, of("t", 0)),
            records=(led(2, isr=(2,), leader_recovery_state=RECOVERING, last_known_elr=()),),
            answer=told(result("t", p0=NONE)),
        ),
        Row(
            case="anybody, and nobody is there",
            rule=f"{ELECT}: no record, no leader.",
            given=nobody_there,
            request=asked(UNCLEAN, of("t", 0)),
            answer=told(result("t", p0=NOBODY)),
        ),
        Row(
            case="no such topic, no such partition, beside one that can be",
            rule=f"{ELECT}: each succeeds or fails by itself.",
            request=asked(PREFERRED, of("nobody", 0), of("t", 7, 0)),
            records=(led(1),),
            answer=told(result("nobody", p0=UNKNOWN), result("t", p7=UNKNOWN, p0=NONE)),
        ),
        Row(
            case="those that are named, preferred",
            rule=f"{ALL}: told of one by one, as they are asked for, needed or not.",
            given=mixed,
            request=asked(PREFERRED, of("zoo", 0), of("birds", 1, 0, 7), of("nobody", 0), of("apes", 2, 1, 0)),
            records=(led(1, 0, APES),),
            answer=told(
                result("zoo", p0=NOT_NEEDED),
                result("birds", p1=NOT_THERE, p0=NOT_THERE, p7=UNKNOWN),
                result("nobody", p0=UNKNOWN),
                result("apes", p2=NOT_NEEDED, p1=NOT_THERE, p0=NONE),
            ),
        ),
        Row(
            case="those that are named, anybody",
            rule=f"{ALL}: told of one by one, as they are asked for, needed or not.",
            given=mixed,
            request=asked(UNCLEAN, of("zoo", 0), of("birds", 1, 0, 7), of("nobody", 0), of("apes", 2, 1, 0)),
            records=(led(3, 0, BIRDS, isr=(3,), leader_recovery_state=RECOVERING),),
            answer=told(
                result("zoo", p0=NOT_NEEDED),
                result("birds", p1=NOBODY, p0=NONE, p7=UNKNOWN),
                result("nobody", p0=UNKNOWN),
                result("apes", p2=NOT_NEEDED, p1=NOT_NEEDED, p0=NOT_NEEDED),
            ),
        ),
        Row(
            case="all, preferred",
            rule=f"{ALL}: every topic is told of, but no partition that needs none. Kafka's order is a hash table's.",
            given=mixed,
            request=of_all(PREFERRED),
            records=(led(1, 0, APES),),
            answer=told(
                result("apes", p0=NONE, p1=NOT_THERE),
                result("birds", p0=NOT_THERE, p1=NOT_THERE, p2=NOT_THERE),
                result("cats"),
                result("zoo"),
            ),
        ),
        Row(
            case="all, preferred, once more",
            rule=f"{ALL}: whoever has been elected is not told of again.",
            given=mixed_again,
            request=of_all(PREFERRED),
            answer=told(
                result("apes", p1=NOT_THERE),
                result("birds", p0=NOT_THERE, p1=NOT_THERE, p2=NOT_THERE),
                result("cats"),
                result("zoo"),
            ),
        ),
        Row(
            case="all, anybody",
            rule=f"{ALL}: every topic is told of, but no partition that has a leader.",
            given=mixed,
            request=of_all(UNCLEAN),
            records=(led(3, 0, BIRDS, isr=(3,), leader_recovery_state=RECOVERING),),
            answer=told(result("apes"), result("birds", p0=NONE, p1=NOBODY), result("cats"), result("zoo")),
        ),
        Row(
            case="an empty list",
            rule=f"{ALL}: null is for all; an empty list names none (KIP-460).",
            given=mixed,
            request=asked(PREFERRED),
            answer=told(),
        ),
        Row(
            case="an election that there is not",
            rule="ElectionType.valueOf: 0 is preferred, 1 is unclean.",
            request=asked(7, of("t", 0)),
            answer=ErrorCode.INVALID_REQUEST,
        ),
        Row(
            case="an election that there is not, of a topic that there is not",
            rule="ReplicationControlManager.electionType: looked at before the topics.",
            request=asked(-1, of("nobody", 0)),
            answer=ErrorCode.INVALID_REQUEST,
        ),
        Row(
            case="too many at once",
            rule=f"{ALL}: at most 10,000 records, all or none (PolicyViolationException).",
            given=very_many,
            request=of_all(PREFERRED),
            answer=ErrorCode.POLICY_VIOLATION,
        ),
    ),
)
