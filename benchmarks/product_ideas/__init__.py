"""What benchmarks/products.py tries: rules, metrics, memory and starts for X ≥ 0, and the same for distances."""
