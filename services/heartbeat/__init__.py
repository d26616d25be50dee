"""The heartbeat service: receives broker heartbeats (KIP-631), and has the controller fence and unfence brokers."""
