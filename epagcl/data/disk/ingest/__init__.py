"""The ingestion of tables of any size to a graph on disk: :func:`epagcl.ingest`, in stages that can be resumed.

=============== ============================================================================
module          content
=============== ============================================================================
``run``         :func:`epagcl.ingest`: the stages in their order
``work``        the folder of an unfinished ingestion: its lock, journal and DuckDB engine
``edge_rows``   the rows of the edges, and those that cannot be used
``nodes``       the distinct ids, and the number of each
``adjacency``   the edges by node numbers, and the CSR matrix
``node_tables`` tables of features, labels and ids, block by block
``features``    the features
``labels``      the labels
``arrays``      arrays that are written part by part
=============== ============================================================================
"""
