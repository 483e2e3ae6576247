"""What is still open, before and after: a module per part, `frontier` puts them together."""
