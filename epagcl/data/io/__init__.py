"""Graphs from users' files and from objects in memory.

Entry points:

================= ==========================================================================
``readers``       :func:`epagcl.read_graph`: files
``from_tables``   :func:`epagcl.from_tables`: tables, arrays and lists in memory
``convert``       :func:`epagcl.from_networkx`, :func:`epagcl.from_scipy`
``hetero``        :func:`epagcl.from_hetero`
``npz``           :func:`epagcl.data.read_npz`, :func:`epagcl.data.write_npz`
================= ==========================================================================

``readers`` and ``from_tables`` convert each part of a graph to a common form (``tables``). ``assemble`` then matches
its rows to nodes, with ``edge_list``, ``feature_list`` and ``label_list``. ``roles`` and ``edge_columns`` decide which
column is which, ``ids`` compares node ids. ``columns`` encodes feature columns of every kind, ``features`` converts
numbers to tensors.
"""
