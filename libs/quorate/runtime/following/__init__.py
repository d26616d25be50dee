"""Following the log of a quorum: an observer's fetches, the servers it asks, the replica of the state.

log_reader         an observer's fetch loop: committed batches of a quorum (KIP-595)
log_servers        the servers that it may ask, in turn: a follower before the leader where that is wanted
unanswered         a line in the log for a service that reaches nobody
log_requests       its requests: Fetch and FetchSnapshot of the metadata partition
leader_reports     reports to the leader of an observer that fetches from followers
replica_readiness  readiness of a service that answers by a replica: caught up, and a leader is heard of
replica            a replica of the state: applies what the fetch loop yields
"""
