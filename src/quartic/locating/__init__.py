"""The search behind `DistanceCompletion`: data read and checked, starts, repairs, the frame of the answer.

``fit`` is its steps, one after the other; ``settings`` is what it is asked and what it answers. ``input``,
``matrix_input`` and ``chunks`` (for Dask) read, ``checks`` looks for what is odd, ``by_component`` goes through what
hangs together, ``search`` decides what to try, ``starts`` and ``repairs`` are what it can try, ``part`` is the data of
one connected component, ``placing`` and ``frame`` turn the answer the right way round. ``complete`` is for a large
matrix without gaps, ``other_units`` for distances far from one.
"""
