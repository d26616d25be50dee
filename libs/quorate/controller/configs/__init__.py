"""Config definitions: one table per resource type, with each config's valid values and default.

kinds           the resource types: how a resource is named, whether it exists, and how a change is checked
topic           topic configs, and the broker configs that are their defaults
broker          broker configs that can be set at run time, for all brokers or for one
broker_file     broker configs that can be set in the properties file only
client_metrics  configs of client metrics subscriptions
group           configs of groups, within limits that brokers set
config_changes  validates config changes, in Kafka's order, and makes their records
settings        the settings of the controllers themselves
values          parsers and validators of values (numbers, booleans, lists …), as Java reads them
"""
