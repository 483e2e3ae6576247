"""Models of deep learning: read from files, priced for devices, and made into instances of every track."""
