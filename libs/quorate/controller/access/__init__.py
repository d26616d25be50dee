"""The common parts of the commands about access.

rights                  whether the caller may do an operation on a resource
screening               rights item by item: what may not be used is taken out, and refused in the answer
acl_filters             which ACL entries a filter matches
authorized_operations   a caller's operations on a resource, as a bit field (KIP-430)
delegation_tokens       checks, expiry and HMAC of delegation tokens
scram_keys              the keys that are stored for a password
"""
