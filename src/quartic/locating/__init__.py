"""The search behind `DistanceCompletion`: data read and checked, starts, repairs, the frame of the answer.

``input`` reads, ``checks`` looks for what is odd, ``search`` decides what to try, ``starts`` and ``repairs`` are what
it can try, ``part`` is the data of one connected component, ``frame`` turns the answer the right way round.
"""
