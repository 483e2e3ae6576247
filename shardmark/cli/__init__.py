"""The command line: its commands, and the arguments, options and output that they share."""
