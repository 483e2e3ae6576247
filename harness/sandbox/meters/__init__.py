"""Meters of what a run uses: memory and CPU time of its processes, memory of its sockets, files in its folders."""
