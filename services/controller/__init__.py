"""The controller service (KIP-631): runs commands on the metadata, and answers once their records are committed."""
