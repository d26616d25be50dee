"""Findings about the voter set, and about configs, ACLs and tokens that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from quorate.doctor.past import Condition, Moment
from quorate.doctor.rules import Facts, Finding, Rule, Severity, days, findings, listed, rounded
from quorate.metadata.configs import BROKER, TOPIC
from quorate.nouns import ZERO_UUID, uuid_text
from quorate.records import AccessControlEntryRecord, DelegationTokenRecord, VotersRecord

__all__ = ["leftover_findings", "voter_findings"]

T = TypeVar("T")

QUORUM: Final = "quorum"
ACL_TOPIC: Final = 2
ACL_LITERAL: Final = 3


@dataclass(frozen=True)
class _Voters:
    facts: Facts
    voters: VotersRecord
    kraft_version: int

    def since(self, condition: Condition) -> Moment | None:
        """Returns since when this condition of the voters has held; None if that is not known."""
        return self.facts.past.since(condition, QUORUM)

    @property
    def ids(self) -> list[int]:
        """Their node ids."""
        return sorted(each.voter_id for each in self.voters.voters)

    @property
    def nameless(self) -> list[int]:
        """Those without a directory id, where there are some."""
        if self.kraft_version < 1:
            return []
        return [each.voter_id for each in self.voters.voters if each.voter_directory_id == ZERO_UUID]


VOTER_RULES: Sequence[Rule[_Voters]] = (
    Rule(
        severity=Severity.WARN,
        code="EVEN_VOTERS",
        holds=lambda of: len(of.ids) % 2 == 0,
        sentence=lambda of: (
            f"{len(of.ids)} voters ({listed(of.ids)}): they tolerate no more failures than one voter less"
        ),
        advice="add a voter or remove one",
        since=lambda of: of.since(Condition.EVEN_VOTERS),
    ),
    Rule(
        severity=Severity.WARN,
        code="SINGLE_VOTER",
        holds=lambda of: len(of.ids) == 1,
        sentence=lambda of: f"one voter ({listed(of.ids)}): no failure is tolerated",
        advice="add two voters",
        since=lambda of: of.since(Condition.SINGLE_VOTER),
    ),
    Rule(
        severity=Severity.WARN,
        code="VOTER_WITHOUT_DIRECTORY",
        holds=lambda of: bool(of.nameless),
        sentence=lambda of: f"voters {listed(of.nameless)} have no directory id at kraft.version {of.kraft_version}",
        advice=(
            "remove and add them again: without it, a voter with an empty disk counts as the one that voted (KIP-853)"
        ),
        since=lambda of: of.since(Condition.THERE),
    ),
)


@dataclass(frozen=True)
class _Of(Generic[T]):
    """Something that nothing uses, and its subject."""

    facts: Facts
    subject: str
    it: T

    @property
    def since(self) -> Moment | None:
        """Since when it has been as it is."""
        return self.facts.past.since(Condition.THERE, self.subject)


DELETE: Final = "delete them: kafka-configs --alter --delete-config; the next user of the name gets them"
OF_NO_NODE: Final = "if no node has this id (a controller that does not vote may not be registered), "
CONFIG_RULES: Sequence[Rule[_Of[Sequence[str]]]] = (
    Rule(
        severity=Severity.INFO,
        code="CONFIG_OF_NOTHING",
        holds=lambda of: bool(of.it),
        sentence=lambda of: f"there is none of that name, and it has configs: {listed(of.it)}",
        advice=lambda of: OF_NO_NODE + DELETE if of.subject.startswith("broker ") else DELETE,
        since=lambda of: of.since,
    ),
)
ACL_RULES: Sequence[Rule[_Of[AccessControlEntryRecord]]] = (
    Rule(
        severity=Severity.INFO,
        code="ACL_OF_NO_TOPIC",
        holds=lambda of: (
            of.it.resource_type == ACL_TOPIC and of.it.pattern_type == ACL_LITERAL and of.it.resource_name != "*"
        ),
        sentence=lambda of: (
            f"is about topic {of.it.resource_name}, which there is not, and principal {of.it.principal}"
        ),
        advice="remove it, unless the topic is to come: kafka-acls --remove",
        since=lambda of: of.since,
    ),
)


@dataclass(frozen=True)
class _Token:
    token: DelegationTokenRecord
    days_ago: float


TOKEN_RULES: Sequence[Rule[_Of[_Token]]] = (
    Rule(
        severity=Severity.INFO,
        code="TOKEN_EXPIRED",
        holds=lambda of: of.it.days_ago > 0,
        sentence=lambda of: f"expired {rounded(of.it.days_ago)} days ago; owner {of.it.token.owner}",
        advice="see why the active controller does not remove it: delegation.token.expiry.check.interval.ms",
        since=lambda of: of.since,
    ),
)


def voter_findings(facts: Facts) -> Iterator[Finding]:
    """Yields the findings about the voter set; none if no record has it. KIP-853."""
    if facts.voters is not None:
        yield from findings(_Voters(facts, facts.voters, facts.kraft_version or 0), QUORUM, VOTER_RULES)


def leftover_findings(facts: Facts) -> Iterator[Finding]:
    """Yields the findings about configs of topics and nodes that there are not, ACLs of such topics, expired tokens.

    Nothing is found about tokens if the time of the last record is not known.
    """
    state, voters = facts.state, () if facts.voters is None else facts.voters.voters
    nodes = {str(broker.id) for broker in state.brokers} | {str(each.controller_id) for each in state.controllers}
    nodes |= {str(each.voter_id) for each in voters} | set(map(str, facts.elected))
    for resource in state.configs:
        kind, name = resource.type, resource.name
        is_there = name == "" or (state.topics.id_of(name) is not None if kind == TOPIC else name in nodes)
        # Where the voters are not known, a node that is not registered may be one of them.
        is_known = kind == TOPIC or (kind == BROKER and facts.kraft_version is not None)
        if is_known and not is_there:
            subject = f"{'topic' if kind == TOPIC else 'broker'} {name}"
            of_nothing = _Of[Sequence[str]](facts, subject, sorted(state.configs.of(kind, name)))
            yield from findings(of_nothing, subject, CONFIG_RULES)
    for acl in state.acls:
        if state.topics.id_of(acl.resource_name) is None:
            subject = f"acl {uuid_text(acl.id)}"
            yield from findings(_Of(facts, subject, acl), subject, ACL_RULES)
    if facts.now_ms is not None:
        for token in state.delegation_tokens:
            subject = f"delegation token {token.token_id}"
            of = _Token(token, days(token.expiration_timestamp, facts.now_ms))
            yield from findings(_Of(facts, subject, of), subject, TOKEN_RULES)
