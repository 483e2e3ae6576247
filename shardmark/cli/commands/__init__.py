"""The commands, one module per group; each module lists its own in ``COMMANDS``."""
