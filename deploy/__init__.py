"""Deployments: `local` runs the whole control plane on loopback, `spark` the pipeline on a Spark cluster; `pyspark`
builds the pipeline's data source as a wheel.
"""
