"""Named graphs: the catalogue (``entries``), its loaders (``sources``) and :func:`load` (``loading``)."""

from epagcl.data.catalogue.entries import CATALOGUE, Entry, find
from epagcl.data.catalogue.loading import Listing, data_root, datasets, load, verify

__all__ = ["CATALOGUE", "Entry", "Listing", "data_root", "datasets", "find", "load", "verify"]
