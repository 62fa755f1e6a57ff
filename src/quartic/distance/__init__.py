"""Distance geometry: from some distances between points to their coordinates, and what the distances determine."""
