"""The replay engine beside a quorum node: decides, applies, and answers once it is committed."""
