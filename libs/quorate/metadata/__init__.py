"""The replicated state machine: the metadata records of the log build the cluster's state (Kafka's MetadataImage)."""
