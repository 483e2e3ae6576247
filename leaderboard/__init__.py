"""What people see: a folder of pages that opens from disk; reads scores only."""
