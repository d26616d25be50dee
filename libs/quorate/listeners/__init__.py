"""The listeners of Kafka's wire of a process, gateway or broker: what each speaks, who may log in, and their bounds.

config          which listeners there are, and the bounds of all of them
settings        the settings that each listener has
security        what each listener speaks, and who its clients are
tls             certificates, taken again when their files change
logins          the mechanisms by which clients log in
scram_logins    logins by the SCRAM credentials and delegation tokens of the metadata log
order           a later request of a connection finds the effect of those before it
opening         opens the listeners, and ends them in order
"""
