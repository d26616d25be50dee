"""Broker liveness, off the log and off the controller's loop: who was heard of, and what that changes."""
