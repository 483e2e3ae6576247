"""Campaigns: discovery of solvers, jobs, the queue that resumes, and executors for this machine and for Dask."""
