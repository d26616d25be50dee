"""The wheel pyspark-kraft: the Spark data source `kraft` for any Spark, without this project's other parts.

build           collects the source's modules, puts them under one package, and builds the wheel
default_source  the package's `__init__`: names the class that Spark looks for
"""
