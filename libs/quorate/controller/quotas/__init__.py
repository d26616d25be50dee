"""Controller mutation quotas (KIP-599): `mutation_quotas` has the token buckets, `metered` the commands within them."""
