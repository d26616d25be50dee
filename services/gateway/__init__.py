"""The gateway service: Kafka's own wire on a controller's listeners, passed on to the gRPC services beside it.

handler                 the pass-through: Kafka's bytes to gRPC and back
apis                    the APIs that it serves, and the service that answers each
reader_fetches          Fetches of brokers and observers, answered here from log_tail, the end of the log
metadata_partition      the metadata log in a Fetch, and in its answer
reader_reports          tells the quorum node how far these are
at_once                 what is answered without a task, to callers who may ask
fetch_form              these answers as bytes, of which all but the records is encoded once
older                   versions of an API whose shape is another one than the newest
keep_alives             heartbeats that want and report nothing, many in one call
heartbeats              the heartbeat services, of which one counts
endpoints               the gateways' addresses in answers
envelope                requests that a broker passes on for its client
features                the answer to ApiVersions
security, listener_tls  the listeners' settings, and their certificates
guard                   CLUSTER_ACTION for raft APIs and heartbeats
logins                  logins by SASL
config, metrics         configuration, metrics
readiness               whether calls should be sent here: that of the controller
"""
