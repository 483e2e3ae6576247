"""Best known costs and bounds of the catalog's instances: data only, read by `shardmark.harness.records`."""

if __name__ != "shardmark.records":
    raise ImportError("the package records is now shardmark.records; solver files import from shardmark")
