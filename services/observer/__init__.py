"""The observer service: a read replica of the metadata, and a store of trace spans. Any number of copies can run.

servicer      answers reads from the replica, and traces from the span store
spans         the span store
examinations  has a state examined by a process of its own, `examine_process`
quorum_progress  how far the voters are, as the quorum's leader says
page          the same reads over HTTP, for browsers, and the page itself
otlp          receives spans from any OpenTelemetry exporter
state_keeper  keeps a database of the state and its history; `state_log` has what the log brings to it
queries       has a question in SQL answered by a process of its own, `query_process`
changes       what changed, what differs and what was, by that database, as `change_messages`
database      checks the URLs of both databases, and says what is wrong; `engines` opens them
images        tells a state as records, part by part, as `image_messages`
relay         forwards fetches of the committed log to a quorum node
check         a program of its own: checks a whole control plane through its doors
config        the settings
"""
