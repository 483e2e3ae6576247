"""Plans: a model file and devices in, a certified split and files that run out."""
