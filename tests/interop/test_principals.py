"""The principal of a client's certificate by Java's names and Kafka's own mapper; ours is the same."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import Final

import pytest

from deploy.kafka.node import TOOL_TIMEOUT_S
from quorate.tls.ssl_principals import SslPrincipals, parse_rules
from tests.interop.kafka.release import absent, java
from tests.network.certificates import Authority, authority, der
from tests.network.test_ssl_principals import SUBJECTS

pytestmark = [pytest.mark.interop, pytest.mark.skipif(absent() is not None, reason=absent() or "")]

JUDGE: Final = Path(__file__).parent / "kafka" / "Principals.java"
RULES: Final = (
    "DEFAULT",
    r"RULE:^CN=(.*?),.*$/$1/L,DEFAULT",
    r"RULE:^UID=(.*?),.*$/$1-x/U, RULE:(.*)/$1x/",
    r"RULE:(.*)CN=(.*?),(.*)/a\/b$2$1/",
    r"RULE:^CN=(.*?),O=(.*?),.*$/$2.$1/U,RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
    r"RULE:C/x/",
)
OLD_STRINGS: Final = "[req]\nstring_mask=default\ndistinguished_name=names\n[names]\n"
"""Makes openssl write T61String and BMPString, as it did twenty years ago."""


def certificates(issuer: Authority) -> list[bytes]:
    stores = [issuer.issue(f"c{number}", each, "-multivalue-rdn") for number, each in enumerate(SUBJECTS)]
    old = issuer.directory / "old.cnf"
    old.write_text(OLD_STRINGS)
    stores += [
        issuer.issue(f"old{number}", f"/CN={each}/O=x", "-config", old) for number, each in enumerate(("Jörg", "Иван"))
    ]
    return [der(store) for store in stores]


def ours(rules: str, certificate: bytes) -> str:
    try:
        return f"= {SslPrincipals(parse_rules(rules))(certificate).name}"
    except ValueError:
        return "! NoMatchingRule"


def test_a_released_kafka_names_the_same_principals(tmp_path: Path) -> None:
    asked = [(rules, each) for each in certificates(authority(tmp_path)) for rules in RULES]
    lines = "".join(f"{rules}\t{base64.b64encode(each).decode()}\n" for rules, each in asked)
    done = subprocess.run(
        java("Principals", source=JUDGE),
        input=lines,
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    assert done.stdout.splitlines() == [ours(rules, each) for rules, each in asked]
    assert len(asked) == len(done.stdout.splitlines()) > done.stdout.count("! ") > 0
