"""TLS for every door, Kafka's wire and gRPC alike: PEM files, and who a peer is by its certificate.

listener_tls     the TLS of a listener from its PEM files, by Kafka's `ssl.*` settings
key_stores       a key store and a trust store that fit each other, read for gRPC, and when they end
watched_files    files that are taken again when they change
revoked          certificates that are refused, by their fingerprints
certificates     the subject of a certificate as Java writes it
ssl_principals   `ssl.principal.mapping.rules`
node_ids         `principal.node.id.mapping.rules`: which node a principal is
"""
