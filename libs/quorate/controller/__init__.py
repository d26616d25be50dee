"""The controller's decisions: commands read the metadata state and return the records to write; they change nothing."""
