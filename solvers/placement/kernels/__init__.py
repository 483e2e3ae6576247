"""Python side of the kernels of the placement track."""
