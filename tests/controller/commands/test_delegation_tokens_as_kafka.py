"""Delegation tokens as a Kafka release answers: one long history of requests, while time passes."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from kraft import Message
from kraft.api.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kraft.api.expire_delegation_token import ExpireDelegationTokenRequest
from kraft.api.renew_delegation_token import RenewDelegationTokenRequest
from quorate.controller.access.delegation_tokens import TokenSettings, parse_principal
from quorate.controller.commands.create_delegation_token import create_delegation_token, with_hmac
from quorate.controller.commands.expire_delegation_token import expire_delegation_token
from quorate.controller.commands.renew_delegation_token import renew_delegation_token
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Decision
from quorate.controller.periodic import CHORES
from quorate.errors import ApiError
from quorate.metadata.versions import METADATA_VERSION
from quorate.nouns import parse_uuid
from quorate.records import FeatureLevelRecord
from quorate.wire.protobuf import json_form
from tests.controller.clusters import Cluster

TOLD = [
    json.loads(line) for line in (Path(__file__).parents[1] / "kafka/delegation_tokens.jsonl").read_text().splitlines()
]
OFF = TokenSettings()
ON = TokenSettings(secret_key="the secret key of a test", max_lifetime_ms=1000, expiry_time_ms=300)
SWEEP = next(chore for chore in CHORES if chore.name == "expire tokens")
Renewer = CreateDelegationTokenRequest.CreatableRenewers


def command_of(told: dict[str, Any]) -> Command[Any]:
    principal, settings, asked = parse_principal(told["principal"]), ON if told["on"] else OFF, told["request"]
    match told["api"]:
        case "create":
            renewers = tuple(Renewer(each["principalType"], each["principalName"]) for each in asked["renewers"])
            return create_delegation_token(
                CreateDelegationTokenRequest(
                    asked["ownerPrincipalType"], asked["ownerPrincipalName"], renewers, asked["maxLifetimeMs"]
                ),
                principal=principal,
                new_token_id=lambda: parse_uuid(told["response"]["tokenId"]),
                settings=settings,
            )
        case "renew":
            renew = RenewDelegationTokenRequest(base64.b64decode(asked["hmac"]), asked["renewPeriodMs"])
            return renew_delegation_token(renew, principal=principal, settings=settings)
        case "expire":
            expire = ExpireDelegationTokenRequest(base64.b64decode(asked["hmac"]), asked["expiryTimePeriodMs"])
            return expire_delegation_token(expire, principal=principal, settings=settings)
        case other:
            assert other == "sweep"
            return SWEEP.command(ControllerSettings(delegation_tokens=settings))


def answered(told: dict[str, Any], decision: Decision[Any]) -> dict[str, Any] | None:
    if told["api"] == "sweep":
        return None
    response: Message = decision.response
    return json_form(with_hmac(response, ON) if isinstance(response, CreateDelegationTokenResponse) else response)


def test_answers_as_kafka_answers_and_writes_what_kafka_writes() -> None:
    cluster = Cluster(33)
    for told in TOLD:
        cluster.apply([FeatureLevelRecord(METADATA_VERSION, told["level"])])
        try:
            decision = cluster.decide(command_of(told), told["now"])
        except ApiError as refusal:
            assert told["response"]["errorCode"] == refusal.code, told
            assert [] == told["records"]
            continue
        cluster.apply(decision.records)

        assert told["response"] == answered(told, decision)
        assert by_id(told["records"]) == by_id([json_form(record) for record in decision.records]), told


def by_id(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A sweep of Kafka's goes in the order of a hash table."""
    return sorted(records, key=lambda record: record["tokenId"])
