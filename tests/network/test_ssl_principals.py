"""Who a TLS client is: the name in its certificate as Kafka writes it, and the rules that map it (KIP-371).

The expected names are those that Java says; `tests/interop/test_principals.py` asks it.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import Corrupt
from quorate.nouns import Principal
from quorate.tls.certificates import subject_name
from quorate.tls.ssl_principals import SslPrincipals, parse_rules
from tests.network.certificates import Authority, authority, der

SUBJECTS = {
    "/C=AA/O=x/CN=alice": "CN=alice,O=x,C=AA",
    "/O=one+OU=two/CN=x": "CN=x,O=one+OU=two",
    '/O=a, b/OU=#1;"<>/CN=J\u00f6rg \\\\=x ': 'CN=J\u00f6rg \\\\\\=x\\ ,OU=\\#1\\;\\"\\<\\>,O=a\\, b',
    "/L= lead/ST=S t/street=way/DC=org/UID=u1": "UID=u1,DC=org,STREET=way,ST=S t,L=\\ lead",
    "/CN=x/emailAddress=a@b.c/serialNumber=12": "2.5.4.5=#13023132,1.2.840.113549.1.9.1=#16056140622e63,CN=x",
}
NAME = "CN=Ann,OU=Ops,O=Some Org"


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_subject_is_written_as_java_writes_it(issuer: Authority, subject: str) -> None:
    keystore = issuer.issue("one", subject, "-multivalue-rdn")

    assert SUBJECTS[subject] == subject_name(der(keystore))


def test_damage_to_a_certificate_is_a_name_or_corrupt(issuer: Authority) -> None:
    """Of whatever bytes; OpenSSL has refused most of them before."""
    whole = der(issuer.issue("damaged", "/O=x/CN=alice"))

    @given(st.integers(0, len(whole) - 1), st.binary(max_size=3))
    def read(at: int, other: bytes) -> None:
        for damaged in (whole[:at], whole[:at] + other + whole[at + 1 :], other):
            try:
                assert isinstance(subject_name(damaged), str)
            except Corrupt as problem:
                assert "subject cannot be read" in str(problem)

    read()


@pytest.mark.parametrize(
    ("rules", "mapped"),
    [
        ("DEFAULT", NAME),
        (r"RULE:^CN=(.*?),OU=Ops.*$/$1/", "Ann"),
        (r"RULE:^CN=(.*?),.*$/$1@$1/L", "ann@ann"),
        (r"RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$2\/$1/U", "OPS/ANN"),
        (r"RULE:^UID=(.*?),.*$/$1/L , RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT", "ann"),
        ("RULE:^UID=(.*)$/$1/,DEFAULT", NAME),
        ("RULE:(.*)/$1-/", NAME + "--"),  # what is empty at the end matches once more, in Java as here
        (r"RULE:^CN=.*$/cost \$1/", "cost $1"),
    ],
)
def test_the_first_rule_that_is_for_a_name_maps_it(rules: str, mapped: str) -> None:
    applied = (rule.apply(NAME) for rule in parse_rules(rules))

    assert mapped == next(each for each in applied if each is not None)


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("", "there is no rule"),
        ("default", "neither DEFAULT nor RULE"),
        ("RULE:a/b", "neither DEFAULT nor RULE"),
        ("RULE:a/b/X", "neither DEFAULT nor RULE"),
        ("DEFAULT RULE:a/b/", "neither DEFAULT nor RULE"),
        ("RULE:(/b/", "no regular expression"),
        ("RULE:a(b)/$2/", "has 1 groups"),
    ],
)
def test_rules_that_are_none_are_refused(rules: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_rules(rules)


def test_a_certificate_that_no_rule_is_for_names_nobody(issuer: Authority) -> None:
    certificate = der(issuer.issue("bob", "/O=x/CN=bob"))

    assert Principal("User", "bob") == SslPrincipals(parse_rules("RULE:^CN=(.*?),.*$/$1/"))(certificate)
    with pytest.raises(ValueError, match="no rule is for the certificate of 'CN=bob,O=x'"):
        SslPrincipals(parse_rules("RULE:^OU=(.*)$/$1/"))(certificate)
