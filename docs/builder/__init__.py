"""What the documentation site is built with; nothing here is part of the package."""
