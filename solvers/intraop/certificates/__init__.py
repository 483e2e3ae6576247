"""Certificates of bounds, for the checker in `shardmark.harness.verify.certificates.intraop`."""
