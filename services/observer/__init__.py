"""A read replica: the state for reads, and the traces of how it came about. Any number of copies."""
