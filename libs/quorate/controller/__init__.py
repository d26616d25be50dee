"""The controller's decisions: commands read the metadata state and return the records to write; they change nothing.

engine                 the replicated state machine that runs commands, one after the other
commands               the APIs, one per file
partitions             partition changes, elections, new partitions
configs, secrets       config definitions, changes and settings; which values are secret
access                 ACL filters, delegation tokens, SCRAM keys, rights
quotas                 mutation quotas
activation, periodic   what the active controller writes unasked: its first records, periodic tasks
policies               the operator's own policies on topics and configs
api_versions           the ApiVersions response
refused_items          takes refused items out of a request, and puts their refusals in the response
registrations          checks of broker epochs
topic_names            valid topic names
"""
