"""Requests about who may do what and how much: configs, quotas, ACLs, credentials, tokens; most can be granted."""

from __future__ import annotations

from random import Random
from typing import Any

from kraft.api.alter_client_quotas import AlterClientQuotasRequest
from kraft.api.alter_configs import AlterConfigsRequest
from kraft.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kraft.api.create_acls import CreateAclsRequest
from kraft.api.create_delegation_token import CreateDelegationTokenRequest
from kraft.api.delete_acls import DeleteAclsRequest
from kraft.api.describe_acls import DescribeAclsRequest
from kraft.api.describe_client_quotas import DescribeClientQuotasRequest
from kraft.api.describe_configs import DescribeConfigsRequest
from kraft.api.describe_delegation_token import DescribeDelegationTokenRequest
from kraft.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kraft.api.expire_delegation_token import ExpireDelegationTokenRequest
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from kraft.api.renew_delegation_token import RenewDelegationTokenRequest
from quorate.controller.access.delegation_tokens import parse_principal, token_hmac
from quorate.controller.commands.alter_client_quotas import alter_client_quotas
from quorate.controller.commands.alter_configs import alter_configs
from quorate.controller.commands.alter_user_scram_credentials import alter_user_scram_credentials
from quorate.controller.commands.create_acls import create_acls
from quorate.controller.commands.create_delegation_token import create_delegation_token
from quorate.controller.commands.delete_acls import delete_acls
from quorate.controller.commands.describe_acls import describe_acls
from quorate.controller.commands.describe_client_quotas import describe_client_quotas
from quorate.controller.commands.describe_configs import describe_configs
from quorate.controller.commands.describe_delegation_token import describe_delegation_token
from quorate.controller.commands.describe_user_scram_credentials import describe_user_scram_credentials
from quorate.controller.commands.expire_delegation_token import expire_delegation_token
from quorate.controller.commands.incremental_alter_configs import incremental_alter_configs
from quorate.controller.commands.renew_delegation_token import renew_delegation_token
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command
from quorate.metadata.configs import BROKER, TOPIC
from quorate.metadata.state import ClusterState
from quorate.nouns import Principal
from tests.controller.asking_about_topics import new_id, some_name

USERS = ("alice", "bob", "carol")
CONFIGS = {
    TOPIC: (("retention.ms", "1000"), ("min.insync.replicas", "2"), ("cleanup.policy", "compact"), ("nonsense", "1")),
    BROKER: (("log.retention.ms", "1000"), ("min.insync.replicas", "1"), ("ssl.key.password", "hunter2")),
}


def some_user(chance: Random) -> Principal:
    return Principal("User", chance.choice(USERS))


# Configs


def some_resource(chance: Random, state: ClusterState) -> tuple[int, str]:
    """A topic, a broker, or all brokers."""
    kind = chance.choice([TOPIC, TOPIC, BROKER])
    return kind, some_name(chance, state) if kind == TOPIC else chance.choice(["", "1", "2"])


def ask_incremental_alter_configs(chance: Random, state: ClusterState, settings: ControllerSettings) -> Command[Any]:
    asked = IncrementalAlterConfigsRequest.AlterConfigsResource
    resources = {}
    for _ in range(chance.randrange(1, 4)):
        kind, name = some_resource(chance, state)
        given = chance.sample(CONFIGS[kind], chance.randrange(1, 3))
        changes = tuple(asked.AlterableConfig(config, chance.randrange(4), value) for config, value in given)
        resources[kind, name] = asked(kind, name, changes)
    request = IncrementalAlterConfigsRequest(resources=tuple(resources.values()))
    return incremental_alter_configs(request, settings=settings)


def ask_alter_configs(chance: Random, state: ClusterState, settings: ControllerSettings) -> Command[Any]:
    asked = AlterConfigsRequest.AlterConfigsResource
    kind, name = some_resource(chance, state)
    given = chance.sample(CONFIGS[kind], chance.randrange(3))
    configs = tuple(asked.AlterableConfig(config, value) for config, value in given)
    return alter_configs(AlterConfigsRequest(resources=(asked(kind, name, configs),)), settings=settings)


def ask_describe_configs(chance: Random, state: ClusterState, settings: ControllerSettings) -> Command[Any]:
    keys = chance.choice([None, ("retention.ms", "min.insync.replicas")])
    asked = DescribeConfigsRequest.DescribeConfigsResource(*some_resource(chance, state), keys)
    return describe_configs(
        DescribeConfigsRequest(resources=(asked,), include_synonyms=chance.random() < 0.5), settings=settings
    )


# Quotas


def ask_alter_client_quotas(chance: Random, _state: ClusterState, _settings: ControllerSettings) -> Command[Any]:
    asked = AlterClientQuotasRequest.EntryData
    entries = []
    for _ in range(chance.randrange(1, 4)):
        kinds = chance.choice([("user",), ("client-id",), ("user", "client-id"), ("ip",)])
        names = [None, "10.0.0.1"] if kinds == ("ip",) else [None, *USERS]
        entity = tuple(asked.EntityData(kind, chance.choice(names)) for kind in kinds)
        key = (
            "connection_creation_rate"
            if kinds == ("ip",)
            else chance.choice(["producer_byte_rate", "request_percentage"])
        )
        entries.append(asked(entity, (asked.OpData(key, float(chance.randrange(1, 5)), chance.random() < 0.3),)))
    return alter_client_quotas(AlterClientQuotasRequest(tuple(entries)))


def ask_describe_client_quotas(chance: Random, _: ClusterState, __: ControllerSettings) -> Command[Any]:
    asked = DescribeClientQuotasRequest.ComponentData
    exact, default, any_name = asked("user", 0, "alice"), asked("user", 1, None), asked("client-id", 2, None)
    components = chance.choice([(), (exact,), (default,), (any_name,), (exact, any_name)])
    return describe_client_quotas(DescribeClientQuotasRequest(components, chance.random() < 0.5))


# ACLs


def ask_create_acls(chance: Random, _: ClusterState, __: ControllerSettings) -> Command[Any]:
    creations = tuple(
        CreateAclsRequest.AclCreation(
            resource_type=chance.choice([2, 3]),
            resource_name=chance.choice(["*", "a", "orders"]),
            resource_pattern_type=chance.choice([3, 3, 4]),
            principal=str(some_user(chance)),
            host=chance.choice(["*", "10.0.0.1"]),
            operation=chance.choice([2, 3, 8]),
            permission_type=chance.choice([2, 3]),
        )
        for _ in range(chance.randrange(1, 4))
    )
    return create_acls(CreateAclsRequest(creations), new_acl_id=lambda: new_id(chance))


def ask_delete_acls(chance: Random, _: ClusterState, __: ControllerSettings) -> Command[Any]:
    asked = DeleteAclsRequest.DeleteAclsFilter
    filters = (
        asked(2, "orders", 2, None, None, 1, 1),
        asked(1, None, 1, str(some_user(chance)), None, 1, 1),
        asked(3, "a", 3, None, "*", 3, 3),
    )
    return delete_acls(DeleteAclsRequest(tuple(chance.sample(filters, chance.randrange(1, 3)))))


def ask_describe_acls(chance: Random, _: ClusterState, __: ControllerSettings) -> Command[Any]:
    everything = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    return describe_acls(chance.choice([everything, DescribeAclsRequest(2, "orders", 2, None, None, 1, 1)]))


# Credentials and tokens


def ask_alter_user_scram_credentials(chance: Random, _: ClusterState, __: ControllerSettings) -> Command[Any]:
    asked = AlterUserScramCredentialsRequest
    users = chance.sample(USERS, 3)
    deletions = tuple(
        asked.ScramCredentialDeletion(user, chance.randrange(1, 3)) for user in users[: chance.randrange(2)]
    )
    upsertions = tuple(
        asked.ScramCredentialUpsertion(user, chance.randrange(1, 3), 4096 + chance.randrange(2), b"salt", b"salted")
        for user in users[1 : chance.randrange(1, 4)]
    )
    return alter_user_scram_credentials(asked(deletions, upsertions))


def ask_describe_user_scram_credentials(chance: Random, _: ClusterState, __: ControllerSettings) -> Command[Any]:
    asked = DescribeUserScramCredentialsRequest
    return describe_user_scram_credentials(asked(chance.choice([None, (asked.UserName("bob"),)])))


def ask_create_delegation_token(chance: Random, _: ClusterState, settings: ControllerSettings) -> Command[Any]:
    asked = CreateDelegationTokenRequest
    owner = some_user(chance) if chance.random() < 0.3 else None
    renewers = tuple(asked.CreatableRenewers("User", user) for user in chance.sample(USERS, chance.randrange(3)))
    lifetime_ms = chance.choice([-1, 500, 50_000])
    request = asked(owner.type if owner else None, owner.name if owner else None, renewers, lifetime_ms)
    return create_delegation_token(
        request,
        principal=some_user(chance),
        new_token_id=lambda: new_id(chance),
        settings=settings.delegation_tokens,
    )


def some_token(chance: Random, state: ClusterState, settings: ControllerSettings) -> tuple[bytes, Principal]:
    """The HMAC of a token, if there is one, and somebody who mostly may change it."""
    tokens = list(state.delegation_tokens)
    if not tokens:
        return b"none", some_user(chance)
    token = chance.choice(tokens)
    hmac = token_hmac(settings.delegation_tokens, token.token_id)
    return hmac, parse_principal(token.owner) if chance.random() < 0.8 else some_user(chance)


def ask_renew_delegation_token(chance: Random, state: ClusterState, settings: ControllerSettings) -> Command[Any]:
    hmac, principal = some_token(chance, state, settings)
    request = RenewDelegationTokenRequest(hmac, chance.choice([-1, 100, 10_000]))
    return renew_delegation_token(request, principal=principal, settings=settings.delegation_tokens)


def ask_expire_delegation_token(chance: Random, state: ClusterState, settings: ControllerSettings) -> Command[Any]:
    hmac, principal = some_token(chance, state, settings)
    request = ExpireDelegationTokenRequest(hmac, chance.choice([-1, 0, 100, 10_000]))
    return expire_delegation_token(request, principal=principal, settings=settings.delegation_tokens)


def ask_describe_delegation_token(chance: Random, _: ClusterState, settings: ControllerSettings) -> Command[Any]:
    owners = tuple(
        DescribeDelegationTokenRequest.DescribeDelegationTokenOwner("User", user) for user in chance.sample(USERS, 2)
    )
    request = DescribeDelegationTokenRequest(chance.choice([None, owners]))
    return describe_delegation_token(request, principal=some_user(chance), settings=settings.delegation_tokens)
