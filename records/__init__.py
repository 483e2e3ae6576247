"""Best known costs and bounds of the catalog's instances: data only, read by `harness.records`."""
