"""What `make kube` shows on a release, a file each: `show` does it, and raises SystemExit if it does not hold."""
