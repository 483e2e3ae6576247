"""The site: a folder of pages that opens from disk; it reads scores only."""
