"""Which settings of EPAGCL and EPAGCL+ matter, and training seeds against splits."""
