"""The controller's commands, one API per file: `create_topics(request, …)` makes the command that the engine runs.

A command checks the request, chooses, and only then makes records and response. It may run twice, so all randomness is
an argument.

allocate_producer_ids, alter_client_quotas, alter_configs, alter_partition, alter_partition_reassignments,
alter_user_scram_credentials, assign_replicas_to_dirs, change_broker_state, create_acls, create_delegation_token,
create_partitions, create_topics, delete_acls, delete_topics, describe_acls, describe_client_quotas, describe_cluster,
describe_configs, describe_delegation_token, describe_topic_partitions, describe_user_scram_credentials,
elect_leaders, expire_delegation_token, incremental_alter_configs, list_partition_reassignments, register_broker,
register_controller, renew_delegation_token, unregister_broker, unregister_controller, update_features
"""
