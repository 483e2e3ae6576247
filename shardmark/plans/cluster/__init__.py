"""Layouts of training and serving runs on clusters: stages, replicas, tensor parallelism and recomputation together."""
