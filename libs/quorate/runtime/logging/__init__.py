"""Structured logs: one line an event, without secrets, and no line again and again.

logs     structured logs: one line an event, each value of at most 1,024 characters
hidden   hides the secrets in a text of a log, in linear time
repeats  which of the same lines, caused by others again and again, are worth writing
"""
