"""One event loop in a process: from its start to its exit code; its clocks, its threads, its memory.

loop            runs a service from start to exit code: event loop, signals, shutdown timeouts, fatal errors
file_limit      as many open files as the system allows the process
memory          the pace of the garbage collector, glibc's arenas, and free memory that goes back to the system
daemon_threads  threads for work that may hang, which do not keep a process from ending
clock           the monotonic clock for deadlines, and the wall clock for timestamps
limit           a time limit for a block, as asyncio.timeout, which costs no call of the kernel
turns           decodes large batches in turns, so that other tasks run in between
holds           how long single callbacks block the event loop
"""
