"""Silver: what was so from which offset to which, by windows in the engine; no row passes through Python.

events       the records that count, from one base on, without gaps and aborted transactions
partitions   partitions: changes are partial, so what a field is was said last
brokers      brokers, likewise
topics       topics and configs, which end with their topic
kept         everything of which the last record says all
write_path   each write, from the request to every replica; needs spans
image        all of them as rows of one table: the state as of any offset
progress     what it is made of, cluster by cluster: a run makes only those that have something new
"""
