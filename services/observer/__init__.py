"""The observer service: a read replica of the metadata, and a store of trace spans. Any number of copies can run."""
