"""A client of a service with a leader: deadlines, backoff, redirection, many calls in one stream.

patience             how long a connection may answer nothing before it is left for another
client               a client for a service with a leader: deadlines, exponential backoff (KIP-580), redirection; the
                     channels to several servers
reaching             advertised listeners: the address under which others reach this node
multiplexed_channel  many unary calls in the messages of one stream: the client
"""
