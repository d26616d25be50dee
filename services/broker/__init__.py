"""The broker service: takes part in the cluster as a broker. Partitions and clients' APIs are not here yet.

driver       from registration to the stop
lifecycle    registration, heartbeats, controlled shutdown (KIP-631)
directories  the log directories: whose they are, and the marks of clean stops (KIP-858, KIP-966)
wire         Kafka's protocol at its listener
config       the settings
"""
