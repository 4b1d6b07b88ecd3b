"""Encoding of a table's columns as features: numbers, booleans, categories, dates and free text, with missing values.

============== =================================================================================
``kinds``      which kind each column is, and the ``columns_as`` that overrides it
``number``     numbers: centred, scaled, large values compressed
``category``   booleans and categories: one feature per frequent value, hashed slots for the rest
``date``       dates: time since the first, month, weekday, hour
``text``       free text: hashed words, weighted by their rarity
``vector``     lists of numbers, such as embeddings: scaled as a whole
``encoding``   :class:`~epagcl.data.io.columns.encoding.TableEncoding`: the columns of a table together
============== =================================================================================

A fitted encoding is plain data. It is saved with the model, so that a later table is encoded in the same way.
"""
