"""How the services are run: on loopback here, on Kubernetes later."""
