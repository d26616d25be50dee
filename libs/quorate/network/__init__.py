"""Kafka's protocol over sockets: asyncio drivers of `quorate.protocol`, a server and a client."""
