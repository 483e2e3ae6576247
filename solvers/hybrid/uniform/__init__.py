"""Plans whose stages are runs of one order and have the same degrees."""
