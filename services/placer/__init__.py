"""Replica placement as a pure function behind an RPC; any number of copies."""
