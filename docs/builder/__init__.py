"""Tools that build the documentation site. They are not part of the package."""
