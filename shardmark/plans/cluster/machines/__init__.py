"""The memory that a layout needs on devices, and the devices that each replica has."""
