"""Kafka's protocol over sockets: asyncio drivers of `quorate.protocol`, a server and a client.

server          listens on a port, and counts who is connected
driver          one connection: answers by a handler
listening       the parts of a listener
connections     how many connections there are and may be
buffers         how many bytes they hold together
fair_turns      turns by address and name at large requests and logins
tls             TLS of one connection of the server
client          one connection to a node: asks, waits, renews its login
jaas            the options of a sasl.jaas.config
client_config   a client's properties by Kafka's names
observer        reads the committed log of a live quorum; `metadata_fetch` has its requests
quorum_view     asks a live quorum's leader how far each voter is
"""
