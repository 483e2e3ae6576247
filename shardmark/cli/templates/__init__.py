"""Templates of solver files, one per track."""
