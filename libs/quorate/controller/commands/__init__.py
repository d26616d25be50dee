"""The controller's commands, one API per file: `create_topics(request, …)` makes the command that the engine runs.

A command checks the request, chooses, and only then makes records and response. It may run twice, so all randomness is
an argument.
"""
