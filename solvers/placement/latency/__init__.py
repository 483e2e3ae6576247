"""Search, integer program and dynamic program for the objective latency."""
