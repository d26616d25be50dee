"""Kafka's bytes.

schema       what a message looks like, read off its protobuf descriptor
codec        a message to bytes and back; compile writes the source for it, walk finds what does not fit
protobuf     the same message as struct, as protobuf, as Kafka's JSON
batch        record batches, version 2
primitives   varints
"""
