"""TODO solvers/intraop/cfn."""
