"""Graphs on disk: a folder of NumPy files that are mapped into memory, not read into it.

============ ======================================================================
module       content
============ ======================================================================
``layout``   the files of the folder, their manifest and its checks
``text``     ids of text as two arrays
``graph``    :class:`epagcl.data.OnDiskGraph`: opening and writing such a folder
``ingest``   :func:`epagcl.ingest`: such a folder from tables of any size
============ ======================================================================
"""
