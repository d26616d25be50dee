"""A metadata log as columns, without Spark: which files there are, and what each record is in JSON.

places       the files below a path, whose cluster they are, and how they are cut into parts
rows         the records of a part as columns, damage included
json_text    a record as the JSON text that Kafka's own converters print; and back
"""
