"""WRITE: what an active controller decides. It reads the state and answers records; it never changes the state.

engine            claim, write, wait for the commit, answer; go back when leadership is lost
decision          what a command is: state and moment in, response and records out
commands          one API a file
partition_change  one partition's next registration, as at most one record
elections         who may lead
broker_changes    what a broker's coming and going means for its partitions
activation        the first records of an epoch
periodic          chores
config_changes    what altering configs comes to
configs           what can be configured, of whom
settings          what the operator configured for the controllers
"""
