"""Incoming requests, before a handler has them: bounded on the wire, given room, decoded in turns; errors as statuses.

caps          limits on the items of a request, for the handlers that look at each
room          how much memory the large requests of one purpose take together; further ones wait in turns of the
              addresses
stream_room   the same for the messages of a stream: each takes its room until it has been served
receiving     how a handler gets its requests: decoded once the caller has been let in
decoding      decodes requests; malformed bytes become INVALID_REQUEST
decoded_cost  what a request would take in memory once it is decoded, found on the wire before it is
statuses      Kafka's error codes as gRPC statuses with rich details, and back (AIP-193)
refusals      answers of Kafka's APIs that refuse a whole request (AbstractRequest.getErrorResponse)
"""
