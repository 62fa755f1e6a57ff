"""Distance geometry: from some distances between points to their coordinates, and what the distances determine.

A *component* is a set of points that distances connect, a *body* one whose shape they fix, the *dimension* that of the
space. ``completion`` is the estimator and ``fit`` its steps. ``data`` reads and checks what people have, ``search`` is
the plan of the search in one component: ``moves`` are what it can try there, ``patches`` its start for large local
graphs. ``findings`` is what is odd. ``determination`` says what is determined: by generic theorems (``bodies``, on
``graph`` and ``framework``), by where the points are (``cuts``) and under ``noise``.
"""
