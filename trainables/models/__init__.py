"""Encoders, cross-encoders, the packed forward pass and pretrained weights. Loads torch."""
