"""SASL inside Kafka's protocol, without I/O: PLAIN, SCRAM and delegation tokens, for both sides."""
