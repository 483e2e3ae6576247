"""Deep-learning models: read from files, with times on devices, and turned into instances of every track."""
