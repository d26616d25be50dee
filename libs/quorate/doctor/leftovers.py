"""Findings about the voter set, and about configs, ACLs and tokens that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.doctor.rules import Facts, Finding, Rule, Severity, findings, listed
from quorate.metadata.configs import BROKER, TOPIC
from quorate.nouns import ZERO_UUID, uuid_text
from quorate.records import AccessControlEntryRecord, DelegationTokenRecord, VotersRecord

__all__ = ["leftover_findings", "voter_findings"]

DAY_MS: Final = 86_400_000
ACL_TOPIC: Final = 2
ACL_LITERAL: Final = 3


@dataclass(frozen=True)
class _Voters:
    voters: VotersRecord
    kraft_version: int

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
    ),
    Rule(
        severity=Severity.WARN,
        code="SINGLE_VOTER",
        holds=lambda of: len(of.ids) == 1,
        sentence=lambda of: f"one voter ({listed(of.ids)}): no failure is tolerated",
        advice="add two voters",
    ),
    Rule(
        severity=Severity.WARN,
        code="VOTER_WITHOUT_DIRECTORY",
        holds=lambda of: bool(of.nameless),
        sentence=lambda of: f"voters {listed(of.nameless)} have no directory id at kraft.version {of.kraft_version}",
        advice=(
            "remove and add them again: without it, a voter with an empty disk counts as the one that voted (KIP-853)"
        ),
    ),
)
CONFIG_RULES: Sequence[Rule[Sequence[str]]] = (
    Rule(
        severity=Severity.INFO,
        code="CONFIG_OF_NOTHING",
        holds=bool,
        sentence=lambda names: f"there is none of that name, and it has configs: {listed(names)}",
        advice=(
            "delete them, if no node has the id: kafka-configs --alter --delete-config; who takes the name gets them"
        ),
    ),
)
ACL_RULES: Sequence[Rule[AccessControlEntryRecord]] = (
    Rule(
        severity=Severity.INFO,
        code="ACL_OF_NO_TOPIC",
        holds=lambda acl: (
            acl.resource_type == ACL_TOPIC and acl.pattern_type == ACL_LITERAL and acl.resource_name != "*"
        ),
        sentence=lambda acl: f"is about topic {acl.resource_name}, which there is not, and principal {acl.principal}",
        advice="remove it, unless the topic is to come: kafka-acls --remove",
    ),
)


@dataclass(frozen=True)
class _Token:
    token: DelegationTokenRecord
    days_ago: float


TOKEN_RULES: Sequence[Rule[_Token]] = (
    Rule(
        severity=Severity.INFO,
        code="TOKEN_EXPIRED",
        holds=lambda of: of.days_ago > 0,
        sentence=lambda of: f"expired {of.days_ago:.1f} days ago; owner {of.token.owner}",
        advice="see why the active controller does not remove it: delegation.token.expiry.check.interval.ms",
    ),
)


def voter_findings(facts: Facts) -> Iterator[Finding]:
    """Yields the findings about the voter set; none if no record has it. KIP-853."""
    if facts.voters is not None:
        yield from findings(_Voters(facts.voters, facts.kraft_version or 0), "quorum", VOTER_RULES)


def leftover_findings(facts: Facts) -> Iterator[Finding]:
    """Yields the findings about configs, ACLs and tokens."""
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
            yield from findings(sorted(state.configs.of(kind, name)), subject, CONFIG_RULES)
    for acl in state.acls:
        if state.topics.id_of(acl.resource_name) is None:
            yield from findings(acl, f"acl {uuid_text(acl.id)}", ACL_RULES)
    if facts.now_ms is not None:
        for token in state.delegation_tokens:
            of = _Token(token, (facts.now_ms - token.expiration_timestamp) / DAY_MS)
            yield from findings(of, f"delegation token {token.token_id}", TOKEN_RULES)
