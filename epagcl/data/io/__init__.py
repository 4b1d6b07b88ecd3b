"""Users' files and tables: readers, converters and the NPZ format."""
