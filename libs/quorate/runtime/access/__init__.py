"""The rights of callers: by certificates, by ACL entries, in whose name; and the authorizer's log.

guard           who may call a service that has no ACL entries: processes and super users, by their certificates
process_rights  which process a caller is, and what each process calls, and so may call
entry_guard     who may call a service that replays the log: by its ACL entries, as far as they are applied
audit           the authorizer's log, with the fields of Kafka's
claims          which node a request speaks for, and the refusal of a sender that is another one
passing_on      metadata of requests that one program passes on to another in the first caller's name (KIP-590)
token_requests  requests about delegation tokens, and the refusal of a caller that has logged in with one (KIP-48)
"""
