"""The command line: its commands, and what they share: arguments, options, output."""
