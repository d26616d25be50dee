"""One API a file, named as it: `create_topics(request, …)` makes the command that the engine runs.

A command checks, chooses, and only then makes records and response. It may run twice, so all chance is an argument.
"""
