"""Deployments: `local` runs the whole control plane on loopback, `spark` runs the pipeline on a Spark cluster."""
