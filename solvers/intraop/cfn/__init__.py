"""Engines of `cfn-native` and `cfn-penalty`: Lagrangian bounds, large neighbourhoods, adaptive penalties."""
