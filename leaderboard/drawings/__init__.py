"""Drawings of splits and schedules."""
