"""The programs: one folder a service, started by `python -m services.<name>`."""
