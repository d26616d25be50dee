"""`ssl.principal.mapping.rules`: from the name in a client's certificate to its principal. KIP-371.

A certificate may have a second name, a SPIFFE id (spiffe://trust-domain/path). Each rule is tried on it first, and then
on the subject, so `DEFAULT` takes the SPIFFE id where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quorate.nouns import Principal
from quorate.tls.certificates import subject_name

__all__ = ["DEFAULT_RULES", "SslPrincipals", "parse_rules"]

DEFAULT_RULES: Final = "DEFAULT"

_PART: Final = r"((?:\\.|[^\\/])*)"
_RULE: Final = re.compile(rf"\s*(?:(DEFAULT)|RULE:{_PART}/{_PART}/([LU]?))\s*(,|$)")
_IN_REPLACEMENT: Final = re.compile(r"\\(.)|\$([0-9])", re.DOTALL)
"""A letter that is meant as it is, or a group."""
_CASES: Final[dict[str, Callable[[str], str]]] = {"": str, "L": str.lower, "U": str.upper}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: in a name that `pattern` matches as a whole, each match becomes `replacement`; $1 is a group of it."""

    pattern: re.Pattern[str] | None
    """None for DEFAULT, which keeps the name as it is."""
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Returns the mapped name; None if the rule's pattern does not match the whole of `name`. DEFAULT keeps it."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        return _CASES[self.case](self.pattern.sub(self._replaced, name))

    def _replaced(self, found: re.Match[str]) -> str:
        def expanded(each: re.Match[str]) -> str:
            return each[1] or found[int(each[2])] or ""

        return _IN_REPLACEMENT.sub(expanded, self.replacement)


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Returns the rules of "RULE:pattern/replacement/[LU],…,DEFAULT". Raises ValueError.

    >>> [rule.apply("CN=Ann,O=x") for rule in parse_rules(r"RULE:^CN=(.*?),.*$/$1/L, DEFAULT")]
    ['ann', 'CN=Ann,O=x']
    """
    rules, at = [], 0
    while at < len(text.rstrip()):
        found = _RULE.match(text, at)
        if found is None:
            why = "is neither DEFAULT nor RULE:pattern/replacement/ with L, U or nothing after it"
            raise ValueError(f"{text[at:]!r} {why}")
        rules.append(_rule(found))
        at = found.end()
        if found[5] == "":
            break
    if not rules:
        raise ValueError("there is no rule")
    return tuple(rules)


def _rule(found: re.Match[str]) -> Rule:
    if found[1]:
        return Rule(None)
    try:
        pattern = re.compile(found[2])
    except re.error as problem:
        raise ValueError(f"{found[2]!r} is no regular expression: {problem}") from None
    groups = [int(group) for _, group in _IN_REPLACEMENT.findall(found[3]) if group]
    if max(groups, default=0) > pattern.groups:
        raise ValueError(f"{found[3]!r} has ${max(groups)}, and {found[2]!r} has {pattern.groups} groups")
    return Rule(pattern, found[3], found[4])


class SslPrincipals:
    """Finds the principal of a TLS client by its certificate: the first rule that is for one of its names counts."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        assert rules
        self._rules = rules

    def __call__(self, certificate: bytes, spiffe_id: str = "") -> Principal:
        """Returns the principal. Raises ValueError if no rule is for it, or Corrupt."""
        subject = subject_name(certificate)
        for rule in self._rules:
            for name in (spiffe_id, subject) if spiffe_id else (subject,):
                mapped = rule.apply(name)
                if mapped is not None:
                    return Principal("User", mapped)
        raise ValueError(f"ssl.principal.mapping.rules: no rule is for the certificate of {spiffe_id or subject!r}")
