"""Encoders, cross-encoders, the packed forward pass and pretrained weights.

Most modules load torch.
"""
