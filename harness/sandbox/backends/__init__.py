"""Backends of the sandbox: control groups by BenchExec, or forks of the supervisor; both isolate by namespaces."""
