"""Section 3 measured: the theorems, and the EPR of augmented views."""
