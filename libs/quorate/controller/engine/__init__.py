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

A driver calls it for each event, and then carries out what `Engine.ready` returns. The order on which all rest:

* A command sees the effect of every write before it, committed or not, and of a write in steps all or nothing.
* Batches leave in the order in which they were applied, each for the offset at which it was applied. If the quorum
  wants another offset the state goes back first, and the commands are decided again (`decide_again`) or refused.
* Answers come in the order of the decisions, a refusal and a read among them: each once all that it has seen is both
  appended and below the high watermark.
* With the leadership all that is not committed goes, and every pending command gets NOT_CONTROLLER (`renounce`).

>>> from quorate.controller.engine.decision import Decision
>>> from quorate.controller.engine.engine import Engine
>>> from quorate.metadata.state import ClusterState
>>> from quorate.records import NoOpRecord
>>> engine = Engine(ClusterState())
>>> engine.claim(epoch=1, next_offset=0)
>>> engine.write("its caller", lambda state, moment: Decision("done", (NoOpRecord(),)), now_ms=0)
>>> ready = engine.ready()
>>> [append.base_offset for append in ready.appends], ready.answers
([0], ())
>>> engine.note_appended(1)
>>> engine.commit(1)
>>> [(answer.token, answer.response, answer.offset) for answer in engine.ready().answers]
[('its caller', 'done', 1)]
"""
