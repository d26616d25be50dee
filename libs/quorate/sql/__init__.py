"""The cluster's state as SQL tables, one for each noun, for questions that nobody may change anything by.

comments           what each field is, from the comments of the protos
nouns              the tables: from which records their columns come, and which rows a state has
difference         what differs between two states, row by row
sentences          what a change is called, in one sentence: the only place that words changes
access_words       those of ACLs, credentials, tokens and quotas
wording            the form of the words of a table
as_of              a query about the state at an offset, of a database that keeps the past
subjects           what a history is asked of: a topic, a broker, a user, a table
touched            the rows that a record may change, so that a log can be followed
tables             the same as SQLAlchemy's tables
views              the questions that are asked again and again, as SQL
listings           what people list, as SQL: topics, partitions, brokers and so on
following          follows a log, and says what each record has changed
state_database     a database that follows a log; state_tables, state_schema, state_writes, state_retention
state_past         what changed in it between two offsets, and what differs between the states at them
guarded            queries on SQLite: read only, bounded
database           a state in SQLite in memory, for a query on it
"""
