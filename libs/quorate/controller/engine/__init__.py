"""The controller engine: a replicated state machine without I/O that runs commands one after the other.

engine                             the state machine: claim, write, commit, answer
decision, steps                    what a command is; long work in steps
preparation, encoding              decides a write and encodes its records before anything is applied
application                        applies a batch's records in steps
ready, pending                     the engine's output; what waits for its commit
failures                           the consequence of each failure of the controller itself
deduplication                      a retry with the same request id gets the same answer
committed                          reads of the committed state without waiting
performance                        durations of the controller's events
"""
