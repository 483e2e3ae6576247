"""The sandbox: runs of solvers under limits of time, memory, processes and output, isolated if the system permits."""
