"""What can be configured, of whom: one table a kind of resource, and which texts each config takes.

kinds           the kinds of resources: how each is named, when there is one, and how a change is checked
topic           topics, and which broker configs stand in for theirs
broker          brokers, at run time: for all of them, or for one
broker_file     brokers, from their file only
client_metrics  client metrics subscriptions
group           groups, within what brokers allow
secrets         of which no value is told
values          which texts are values: numbers, switches, lists … as Java reads them
"""
