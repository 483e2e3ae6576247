"""Lower-bound methods of the track ``intraop``."""
