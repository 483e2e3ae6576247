"""Plans: from a model file and devices to a certified split and files that run."""
