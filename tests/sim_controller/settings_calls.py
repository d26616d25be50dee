"""Requests that change settings: configs, levels, quotas, ACLs, SCRAM credentials, tokens, controllers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kraft import Uuid
from kraft.api.alter_client_quotas import AlterClientQuotasRequest
from kraft.api.alter_configs import AlterConfigsRequest
from kraft.api.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kraft.api.create_acls import CreateAclsRequest
from kraft.api.create_delegation_token import CreateDelegationTokenRequest
from kraft.api.delete_acls import DeleteAclsRequest
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from kraft.api.unregister_controller import UnregisterControllerRequest
from kraft.api.update_features import UpdateFeaturesRequest
from quorate.controller.commands.alter_client_quotas import alter_client_quotas
from quorate.controller.commands.alter_configs import alter_configs
from quorate.controller.commands.alter_user_scram_credentials import alter_user_scram_credentials
from quorate.controller.commands.create_acls import create_acls
from quorate.controller.commands.create_delegation_token import create_delegation_token
from quorate.controller.commands.delete_acls import delete_acls
from quorate.controller.commands.incremental_alter_configs import incremental_alter_configs
from quorate.controller.commands.unregister_controller import unregister_controller
from quorate.controller.commands.update_features import update_features
from quorate.nouns import Principal
from tests.sim_controller.controller import Controller
from tests.sim_controller.model import BROKER_CONFIG, ELR_FEATURE, METADATA_FEATURE, MIN_ISR, TOPIC_CONFIG, UNCLEAN

if TYPE_CHECKING:
    from tests.sim_controller.admins import Admins

Made = tuple[str, Any, Any]
"""Name, request, and what makes the command of a controller and of placements."""

SET, DELETE = 0, 1
UPGRADE, SAFE_DOWNGRADE = 1, 2
LITERAL, ANY_PATTERN = 3, 1
TOPIC_RESOURCE, ANY = 2, 1
READ, ALLOW = 3, 3
SCRAM_SHA_256 = 1
ITERATIONS = 4096

Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
Entry = AlterClientQuotasRequest.EntryData


def _configs(admins: Admins) -> Made | None:
    """A topic's or the whole cluster's."""
    random, names = admins.random, sorted(admins.model.topics)
    of_topic = bool(names) and random.random() < 0.7
    name, value = random.choice(
        [(MIN_ISR, random.choice("123")), (UNCLEAN, random.choice(["true", "false"])), ("retention.ms", "1000")]
    )
    operation = DELETE if of_topic and random.random() < 0.3 else SET
    if not of_topic and name == "retention.ms":
        return None
    config = Resource.AlterableConfig(name, operation, None if operation == DELETE else value)
    resource = Resource(
        TOPIC_CONFIG if of_topic else BROKER_CONFIG, random.choice(names) if of_topic else "", (config,)
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,))

    def command(controller: Controller, _: Any) -> Any:
        return incremental_alter_configs(request, settings=admins.world.controller_settings)

    return "IncrementalAlterConfigs", request, command


def _levels(admins: Admins) -> Made:
    """metadata.version up or down, the ELR on or off."""
    random, model = admins.random, admins.model
    name = random.choice([METADATA_FEATURE, METADATA_FEATURE, ELR_FEATURE, ELR_FEATURE, "group.version"])
    present = model.levels.get(name, 0)
    level = random.choice([14, 17, 23, 25, 28, 33]) if name == METADATA_FEATURE else random.choice([0, 1])
    kind = UPGRADE if level >= present else SAFE_DOWNGRADE
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=(update,))

    def command(controller: Controller, _: Any) -> Any:
        raft = controller.node.raft
        assert raft is not None
        voters = raft.log.voters.latest.ids - {controller.node.id}
        settings = admins.world.controller_settings
        return update_features(request, kraft_version=raft.log.kraft_version, voters=voters, settings=settings)

    return "UpdateFeatures", request, command


def _quotas(admins: Admins) -> Made:
    random = admins.random
    op = Entry.OpData("producer_byte_rate", float(random.randrange(1, 1_000)), random.random() < 0.3)
    entity = (Entry.EntityData("user", random.choice(["ann", "ben", None])),)
    request = AlterClientQuotasRequest(entries=(Entry(entity, (op,)),))
    return "AlterClientQuotas", request, lambda *_: alter_client_quotas(request)


def _new_acl(admins: Admins) -> Made:
    random = admins.random
    creation = CreateAclsRequest.AclCreation(
        TOPIC_RESOURCE, random.choice("abc"), LITERAL, random.choice(["User:ann", "User:ben"]), "*", READ, ALLOW
    )
    request = CreateAclsRequest(creations=(creation,))
    return "CreateAcls", request, lambda *_: create_acls(request, new_acl_id=lambda: Uuid(random.randbytes(16)))


def _no_acl(admins: Admins) -> Made:
    some = DeleteAclsRequest.DeleteAclsFilter(
        TOPIC_RESOURCE, admins.random.choice("abc"), LITERAL, None, None, ANY, ANY
    )
    request = DeleteAclsRequest(filters=(some,))
    return "DeleteAcls", request, lambda *_: delete_acls(request)


def _credentials(admins: Admins) -> Made:
    random, user = admins.random, admins.random.choice(["ann", "ben"])
    if random.random() < 0.3:
        gone = AlterUserScramCredentialsRequest.ScramCredentialDeletion(user, SCRAM_SHA_256)
        request = AlterUserScramCredentialsRequest(deletions=(gone,))
    else:
        new = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            user, SCRAM_SHA_256, ITERATIONS, random.randbytes(16), random.randbytes(32)
        )
        request = AlterUserScramCredentialsRequest(upsertions=(new,))
    return "AlterUserScramCredentials", request, lambda *_: alter_user_scram_credentials(request)


def _replaced_configs(admins: Admins) -> Made | None:
    """All of a topic's, by the older request."""
    random, names = admins.random, sorted(admins.model.topics)
    if not names:
        return None
    resource = AlterConfigsRequest.AlterConfigsResource
    chosen = [resource.AlterableConfig(MIN_ISR, random.choice("123"))] if random.random() < 0.5 else []
    request = AlterConfigsRequest(resources=(resource(TOPIC_CONFIG, random.choice(names), tuple(chosen)),))
    return "AlterConfigs", request, lambda *_: alter_configs(request, settings=admins.world.controller_settings)


def _token(admins: Admins) -> Made:
    """For a second or so: a chore takes it out when it has expired."""
    random, tokens = admins.random, admins.world.controller_settings.delegation_tokens
    request = CreateDelegationTokenRequest(max_lifetime_ms=random.randrange(500, 5_000))

    def command(controller: Controller, _: Any) -> Any:
        new_id = Uuid(random.randbytes(16))
        return create_delegation_token(
            request, principal=Principal("User", "ann"), new_token_id=lambda: new_id, settings=tokens
        )

    return "CreateDelegationToken", request, command


def _no_controller(admins: Admins) -> Made:
    """One that is alive registers again."""
    request = UnregisterControllerRequest(admins.random.choice(sorted(admins.world.nodes)))
    return (
        "UnregisterController",
        request,
        lambda controller, _: unregister_controller(request, active_id=controller.node.id),
    )


SETTINGS_CALLS: Final[tuple[tuple[int, Callable[[Admins], Made | None]], ...]] = (
    (3, _configs),
    (1, _levels),
    (1, _quotas),
    (1, _new_acl),
    (1, _no_acl),
    (1, _credentials),
    (1, _replaced_configs),
    (1, _token),
    (1, _no_controller),
)
"""How often, and what."""
