"""The quorum service: one KRaft node (KIP-595). It keeps the log, votes, replicates, and serves its controller.

driver, flusher                          the event loop around the Raft core; the thread that waits for fsync
answers                                  the core's answers as they leave, with the bytes that they refer to
disk, checkpoints, batches               storage in the core's types
last_known, room                         whether the directory is as the node left it; whether the disk has room
feature_levels                           warns of feature levels in the log that this release does not know
servicer, membership, translate          the gRPC servicers, and the conversion of Kafka's messages
peers, endpoints, listeners              the client of other nodes, their addresses, and what is spoken there
reachability                             warns of peers that are not reached, and of an own entry that leads elsewhere
peer_wire, kafka_wire, peer_config       the two wires to a peer: gRPC, and Kafka's with its logins
boundaries                               refuses offsets of peers that lie within a batch
appends                                  the controller's appends: batching and backpressure
controller_events, controller_presence   the controller's Listen stream; whether it is present
snapshot_upload, downloads, cleaner      snapshots in, snapshots out, retention (KIP-630)
follower_fetch                           serves the committed log to observers
readiness, handing_over                  whether this node counts in a rollout; to whom a leader hands over
alter_quorum, describe                   AlterQuorum; DescribeQuorum and FindQuorum
metrics, readings, recorder, tracing     metrics and spans
first_start, resize                      programs of their own: format an empty directory, once; remove voters that go
own_certificate                          another: copies the certificate of one node out of those of all
config                                   the settings, by Kafka's names
"""
