"""Tests on a GPU, which a pretend one stands in for, see tests.pretend_gpu."""
