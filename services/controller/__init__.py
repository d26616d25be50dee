"""The controller service (KIP-631): runs commands on the metadata, and answers once their records are committed.

api, handlers                               the table of the APIs: a row says all of an API; their handlers
servicer, admin                             the gRPC service and the envelopes, made from the rows
call, deadlines, pages, answers             one request on its way to its handler and back
forwarding                                  forwards a call to the active controller
authorizing, hops                           rights, on the cluster and item by item; who passed a call on
logins, call_logins                         SCRAM exchanges for gateways; passwords and tokens of calls
apis, chunked_writes, outliving             what handlers use
own_placement, placed_ahead                 replicas of new partitions, while no placer answers, or placed before
placement_requests, placement_stream        replicas of new partitions, from a placer
sessions                                    what else is asked of others before a decision
session_claims                              which heartbeat service counts
reads                                       reads of what is committed, active or standby
driver, decision_queue, pending, activating the event loop around the engine
quorum_link, quorum_node                    the clients of the quorum node
snapshots, snapshot_loading                 snapshots to the quorum node, and from it
registration, periodic_tasks                what the controller does unasked
metrics, performance, tracing               what it tells of itself
failing                                     failpoints for tests
config, settings                            the settings, by Kafka's names, and what is built from them

A write goes `driver.write` (decided, applied, queued), `quorum_link` (appended, with the others of its message),
`driver.commit` (the high watermark has passed it, and its caller is answered); `driver.apply` replays what another
controller wrote. The order on which all rest:

* Writes are decided one after the other; between two steps of a long one only reads are.
* One message of appends is under way at a time, and the next one has all that was decided until its commit.
* An answer leaves after the commit of all that it has seen; one without records also needs the quorum node's word that
  it still leads (ReadIndex, Raft thesis 6.4).
* Events of the quorum node are handled one by one, in their order.
"""
