"""The metadata of the cluster: values, the rules of their changes, and their files."""
