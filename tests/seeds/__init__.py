"""What the simulators share: one integer makes a whole history, which is judged.

outcome   what became of a seed
many      many seeds in several processes, and what is to be said of all of them
planting  bugs that are planted, and how many seeds they live
command   `python -m tests.sim… soak | replay | mutants`
"""
