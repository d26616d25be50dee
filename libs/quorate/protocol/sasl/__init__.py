"""SASL inside Kafka's protocol, without I/O: PLAIN, SCRAM and delegation tokens, for both sides.

server, client          the two sides of a login
mechanism               what a mechanism is to them, and what a login leads to
plain                   PLAIN
scram, scram_messages   SCRAM-SHA-256 and -512, also with delegation tokens
session                 how long a session lasts
"""
