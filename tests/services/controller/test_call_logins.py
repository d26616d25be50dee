"""Logins in a call's metadata: whose password or token counts, and that others all get the same answer."""

from __future__ import annotations

import asyncio
import base64
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from quorate.controller.access.delegation_tokens import token_hmac
from quorate.controller.engine.engine import Engine
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.scram import MECHANISMS
from quorate.metadata.state import ClusterState
from quorate.nouns import Principal
from quorate.protocol.sasl.mechanism import Login
from quorate.records import RemoveDelegationTokenRecord, RemoveUserScramCredentialRecord
from quorate.runtime.settings.config import ConfigError, load
from services.controller import call_logins
from services.controller.call_logins import HASHED_AT_ONCE, CallLogins
from services.controller.config import ControllerConfig
from tests.protocol.test_sasl import PASSWORD, USER, credential
from tests.services.engines import TOKEN, TOKENS, active, commit, logins, standing_by, write
from tests.services.scripted import WITHIN_S

NAMES = tuple(MECHANISMS.values())
HMAC = base64.b64encode(token_hmac(TOKENS, "t1")).decode()
FAILED = "the credentials are those of no user and no delegation token"


def basic(user: str = USER, password: str = PASSWORD) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def asked(engine: Engine, *, names: tuple[str, ...] = NAMES, now_ms: int = 5_000) -> CallLogins:
    return CallLogins(logins(engine, now_ms=now_ms), names, failure_delay_s=0)


async def login(by: CallLogins, *values: str, host: str = "10.0.0.7") -> Login | str | None:
    """The login of a call with these values of `authorization`, or the words of its refusal."""
    metadata = (("client-id", "x"), *(("authorization", value) for value in values))
    context: Any = SimpleNamespace(invocation_metadata=lambda: metadata, peer=lambda: f"ipv4:{host}:50000")
    try:
        return await by(context)
    except ApiError as refusal:
        assert ErrorCode.SASL_AUTHENTICATION_FAILED is refusal.code
        return refusal.message


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_user_of_the_log_logs_in_with_the_password_at_any_controller(mechanism: int) -> None:
    for engine in (active(credential(mechanism)), standing_by(credential(mechanism))):
        by = asked(engine)
        first, again = await login(by, basic()), await login(by, basic())  # the second time from memory
        assert Login(principal=Principal("User", USER)) == first == again


@pytest.mark.parametrize(
    "value",
    [
        basic(password="wrong"),
        basic(password=""),
        basic(user="nobody"),
        basic(user=""),
        "Basic ",
        "Basic !",
        "Basic " + base64.b64encode(USER.encode()).decode(),
        "Basic " + base64.b64encode(b"\xff:\xfe").decode(),
        "DelegationToken t1",
        "DelegationToken t1:",
        "DelegationToken t1:wrong",
        f"DelegationToken t2:{HMAC}",
        f"DelegationToken :{HMAC}",
        "DelegationToken t1:\u00fc",
    ],
)
async def test_what_fits_nobody_is_refused_in_the_same_words(value: str, caplog: pytest.LogCaptureFixture) -> None:
    assert FAILED == await login(asked(active(credential(1), TOKEN)), value)
    credentials = value.partition(" ")[2]
    assert not credentials or credentials not in caplog.text


class FailureClock:
    """The time that a failed login sees: it begins at 7 s, and its hash takes `hash_s`."""

    def __init__(self, hash_s: float) -> None:
        self.now_s = 7.0
        self._hashed_at_s = 7.0 + hash_s

    def read(self) -> float:
        """The hash is done after the first reading."""
        now_s, self.now_s = self.now_s, self._hashed_at_s
        return now_s

    async def sleep(self, delay_s: float) -> None:
        self.now_s += max(0.0, delay_s)


@pytest.mark.parametrize("value", [basic(password="wrong"), basic(user="nobody"), "Basic !", "DelegationToken t1:no"])
@pytest.mark.parametrize(("hash_s", "refused_s"), [(0.0, 7.5), (0.0625, 7.5), (0.375, 7.5), (0.5, 7.5), (2.0, 9.0)])
async def test_a_refusal_comes_at_one_time_however_long_the_hash_takes(
    value: str, hash_s: float, refused_s: float
) -> None:
    """Else the duration tells who is there: the hash of a user with more iterations takes longer."""
    clock, known = FailureClock(hash_s), logins(active(credential(1), TOKEN), now_ms=5_000)
    by = CallLogins(known, NAMES, failure_delay_s=0.5, now_s=clock.read, sleep=clock.sleep)

    assert FAILED == await login(by, value)
    assert refused_s == clock.now_s


async def test_another_scheme_and_two_at_once_are_refused() -> None:
    by = asked(active(credential(1)))

    assert "must have Basic or DelegationToken" in str(await login(by, "Bearer abc"))
    assert "is there 2 times" in str(await login(by, basic(), basic()))
    assert None is await login(by)


async def test_credentials_are_never_ignored_where_there_are_no_logins() -> None:
    """The call would be done in another name than its sender thinks."""
    by = asked(active(credential(1)), names=())

    assert "sasl.enabled.mechanisms is empty" in str(await login(by, basic()))
    assert None is await login(by)


async def test_only_credentials_of_the_enabled_mechanisms_count() -> None:
    by = asked(active(credential(1)), names=("SCRAM-SHA-512",))

    assert FAILED == await login(by, basic())


async def test_a_password_that_was_changed_or_taken_away_counts_no_more() -> None:
    engine = active(credential(1))
    by = asked(engine)
    assert isinstance(await login(by, basic()), Login)
    write(engine, RemoveUserScramCredentialRecord(name=USER, mechanism=1))
    assert isinstance(await login(by, basic()), Login)  # it is not committed yet
    commit(engine)

    assert FAILED == await login(by, basic())


@pytest.mark.parametrize("change", [None, "another password", "the same, set again"])
async def test_who_has_logged_in_is_out_once_the_credential_is_another_one(change: str | None) -> None:
    """As a stream's next request finds out; a change counts once it is committed."""
    engine = active(credential(1))
    by = asked(engine)
    hers = await login(by, basic())
    assert isinstance(hers, Login)
    known = logins(engine, now_ms=5_000)
    known.check_live(hers)
    same = credential(1)
    changed = replace(same, stored_key=same.stored_key if change == "the same, set again" else b"another")
    write(engine, RemoveUserScramCredentialRecord(name=USER, mechanism=1) if change is None else changed)
    known.check_live(hers)  # it is not committed yet
    commit(engine)
    if change == "the same, set again":
        known.check_live(hers)
        return

    with pytest.raises(ApiError, match="the password was changed or taken away since the login") as refused:
        known.check_live(hers)
    assert ErrorCode.SASL_AUTHENTICATION_FAILED is refused.value.code


async def test_a_token_that_was_ended_before_its_time_counts_no_more() -> None:
    engine = active(TOKEN)
    owners = await login(asked(engine), f"DelegationToken t1:{HMAC}")
    assert isinstance(owners, Login)
    known = logins(engine, now_ms=5_000)
    known.check_live(owners)
    write(engine, RemoveDelegationTokenRecord(token_id="t1"))
    commit(engine)

    with pytest.raises(ApiError, match="the delegation token has ended since the login"):
        known.check_live(owners)


async def test_a_token_counts_until_it_ends_and_says_that_it_is_one() -> None:
    engine = active(TOKEN)
    value = f"delegationtoken  t1:{HMAC}"

    expected = Login(principal=Principal("User", "ow:ner"), is_token=True, expires_at_ms=6_000)
    assert expected == await login(asked(engine, now_ms=5_999), value)
    assert FAILED == await login(asked(engine, now_ms=6_000), value)
    with pytest.raises(ApiError, match="login ended 0 ms ago by this node's clock"):
        logins(engine, now_ms=6_000).check_live(expected)
    logins(engine, now_ms=5_999).check_live(expected)


async def test_before_the_state_is_loaded_nobody_is_said_to_be_wrong() -> None:
    by, context = asked(Engine(ClusterState())), SimpleNamespace(peer=lambda: "unix:/x")
    context.invocation_metadata = lambda: (("authorization", basic()),)
    with pytest.raises(ApiError) as refused:
        await by(context)

    assert ErrorCode.COORDINATOR_LOAD_IN_PROGRESS is refused.value.code


async def test_a_call_that_is_cancelled_makes_no_room_before_its_hash_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    lock, released, hashed = threading.Lock(), threading.Event(), call_logins.salted_password
    at_once = most = 0

    def counted(*given: Any) -> bytes:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        released.wait(WITHIN_S)
        with lock:
            at_once -= 1
        return hashed(*given)

    monkeypatch.setattr(call_logins, "salted_password", counted)
    by = asked(active(credential(1)))
    for _ in range(5):
        calls = [asyncio.create_task(login(by, basic(password="wrong"))) for _ in range(HASHED_AT_ONCE)]
        while at_once < HASHED_AT_ONCE:  # noqa: ASYNC110  # a thread counts
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)  # in which more would begin
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    last = asyncio.create_task(login(by, basic()))
    await asyncio.sleep(0.05)
    released.set()

    assert Login(principal=Principal("User", USER)) == await last
    assert HASHED_AT_ONCE == most


async def test_many_wrong_passwords_leave_the_loop_to_others() -> None:
    by = asked(active(credential(1, iterations=16_384)))
    wrong = [asyncio.ensure_future(login(by, basic(password=str(number)))) for number in range(20)]
    turns = 0
    while not all(each.done() for each in wrong):
        turns += 1
        await asyncio.sleep(0)

    assert {FAILED} == {each.result() for each in wrong}
    assert turns > len(wrong)


@pytest.mark.parametrize("at", ["10.0.0.7", "10.0.0.8"], ids=["the same address", "another"])
async def test_wrong_passwords_do_not_stand_before_the_first_login_of_somebody_else(at: str) -> None:
    """It waits for the hashes that are under way, and for one turn of the other name: counted, not timed."""
    bob = replace(credential(1), name="bob")
    by, told = asked(active(credential(1, iterations=16_384), bob)), list[object]()
    wrong = [asyncio.create_task(login(by, basic(password=str(number)))) for number in range(60)]
    for each in wrong:
        each.add_done_callback(told.append)
    await asyncio.sleep(0)
    assert Login(principal=Principal("User", "bob")) == await login(by, basic(user="bob"), host=at)

    assert len(told) <= 2 * HASHED_AT_ONCE + 1
    for each in wrong:
        each.cancel()
    await asyncio.gather(*wrong, return_exceptions=True)


async def test_wrong_names_of_one_address_do_not_stand_before_a_right_one() -> None:
    by, told = asked(active(credential(1))), list[object]()
    wrong = [asyncio.create_task(login(by, basic(user=f"nobody-{number}"))) for number in range(300)]
    for each in wrong:
        each.add_done_callback(told.append)
    await asyncio.sleep(0)
    assert Login(principal=Principal("User", USER)) == await login(by, basic())

    assert len(told) <= 2 * HASHED_AT_ONCE + 1
    for each in wrong:
        each.cancel()
    await asyncio.gather(*wrong, return_exceptions=True)


def test_a_password_takes_tls() -> None:
    given = ["node.id=1", "listeners=PLAINTEXT://:9093", "quorum.endpoint=a:1", "placer.endpoints=a:1"]
    given += ["metadata.log.dir=/nowhere", "sasl.enabled.mechanisms=SCRAM-SHA-512"]
    with pytest.raises(ConfigError) as refused:
        load(ControllerConfig, [word for each in given for word in ("--set", each)], {})

    assert (
        "sasl.enabled.mechanisms = SCRAM-SHA-512: all listeners must speak SSL; else others can read passwords",
    ) == refused.value.problems
