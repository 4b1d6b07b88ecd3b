"""Tables with numbered columns, from text files (``text``), from pandas, polars and Parquet (``frame``).

``files`` opens a table by the suffix of its file. ``base`` has the common interface.
"""
