"""The HTML report of a run: its content, its map, its page and its files."""
