"""What the schema marks as secret (`debug_redact`) is in no repr, and so in no assertion, log line or traceback."""

from __future__ import annotations

import traceback

import pytest

from kraft import Message, Uuid
from kraft.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kraft.api.create_delegation_token import CreateDelegationTokenResponse
from kraft.api.describe_delegation_token import DescribeDelegationTokenResponse
from kraft.api.expire_delegation_token import ExpireDelegationTokenRequest
from kraft.api.renew_delegation_token import RenewDelegationTokenRequest
from quorate.records import TopicRecord, UserScramCredentialRecord
from quorate.wire.codec import decode, encode
from quorate.wire.schema import layout_of

SECRET = b"hunter2"
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
Described = DescribeDelegationTokenResponse.DescribedDelegationToken


@pytest.mark.parametrize(
    "message",
    [
        AlterUserScramCredentialsRequest(upsertions=(Upsertion("bob", 1, 4096, b"hunter2 as salt", SECRET),)),
        CreateDelegationTokenResponse(hmac=SECRET),
        DescribeDelegationTokenResponse(tokens=(Described(hmac=SECRET),)),
        ExpireDelegationTokenRequest(SECRET, 1),
        RenewDelegationTokenRequest(SECRET, 1),
        UserScramCredentialRecord("bob", 1, SECRET, SECRET, SECRET, 4096),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_secret_is_carried_and_not_shown(message: Message) -> None:
    assert "hunter2" not in repr(message)
    assert "***" in repr(message)
    version = layout_of(type(message)).versions[-1]

    assert message == decode(type(message), encode(message, version), version)


def test_a_failed_assertion_about_a_message_shows_no_secret() -> None:
    record = UserScramCredentialRecord("bob", 1, b"salt", SECRET, SECRET, 4096)
    try:
        raise AssertionError([record])
    except AssertionError as error:
        told = "".join(traceback.format_exception(error))

    assert "hunter2" not in told
    assert "name='bob', mechanism=1, salt=***, stored_key=***, server_key=***, iterations=4096" in told


def test_all_else_is_shown_as_ever() -> None:
    assert "TopicRecord(name='orders', topic_id=b'0123456789abcdef', unknown_tags=())" == repr(
        TopicRecord("orders", Uuid(b"0123456789abcdef"))
    )
