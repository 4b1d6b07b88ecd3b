"""Whole methods, each tuned with the same budget."""
