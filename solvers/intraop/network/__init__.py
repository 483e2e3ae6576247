"""The instance as a network of cost functions with memory, and its exact reductions."""
