"""Schedules that searches improve, and what limits them: heads and tails, memory, time."""
