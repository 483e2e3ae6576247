"""What a layout takes of the machines: the memory of their devices, and which devices a replica has."""
