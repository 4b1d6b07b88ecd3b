"""What the study lacks, and its completion."""
