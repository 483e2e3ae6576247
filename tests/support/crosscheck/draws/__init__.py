"""Instances of 8 to 60 nodes by their index, a module per track."""
