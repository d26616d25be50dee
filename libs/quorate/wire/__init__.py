"""Kafka's wire format: messages, records and record batches as bytes, as protobuf and as JSON.

schema       the layout of a message, read from its protobuf descriptor
codec        encodes and decodes messages by generated code; walk locates errors
compile      builds and keeps that code; decoder_source and encoder_source generate it, codec_source is what both share
protobuf     converts a message between struct, protobuf and Kafka's JSON; convert generates the code for it,
             convert_in_steps that for large messages
items        how many items a message has, and work on many of them in steps
json_names   the names of fields and record types in Kafka's JSON
fitting      a message without what a version has no field for
shared       a tuple that keeps its protobuf form and its encoded form
batch        record batches, version 2; `common_records` has the records as KRaft writes them
inflation    gzip, decompressed in pieces
primitives   varints
"""
