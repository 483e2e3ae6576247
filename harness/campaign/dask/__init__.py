"""Campaigns on several machines: an executor that sends jobs to the workers of a Dask scheduler, and these workers."""
