"""The data pipeline: turns metadata logs and checkpoints of many clusters, over years, into tables with Spark.

source            the Spark data source `kraft`
bronze            the raw layer
silver            the history layer
gold              the answer layer
report            one HTML page
tables            the tables, in plain Parquet
verify            compares the replay with every checkpoint
jobs              the jobs of the command; `steps` prints their progress, `exits` has their exit codes
apart             leaves out the clusters that a job fails for; `problems` makes one line of an error
locks             keeps two jobs from writing the same tables at once
export            writes a source's rows as Parquet, by the workers; `row_files` how records are encoded there
node_options      the arguments that name a running cluster's nodes
difference_text   prints a difference from a checkpoint, without what may be a secret
session           Spark sessions; `jvm_names` remembers what the driver asked the JVM for, `size` estimates what a
                  job reads, `memory` caches, `frames` has the schemas; `remote` is for clients of Spark Connect
groups            what window functions compute, over arrays in Python workers; `payloads` parses JSON there
"""
