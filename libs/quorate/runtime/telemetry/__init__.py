"""Traces and metrics: all calls of OpenTelemetry; in libs nothing else imports it.

tracing          trace spans, and W3C trace context propagation
export           encodes spans as OTLP
otlp_settings    the environment of that export: a proxy, and variables that cannot be read
metrics          declares and exports metrics
metric_rows      metrics as table rows: name, kind, unit, help, Kafka's names
cluster_metrics  metrics of the cluster's state on any replica
"""
