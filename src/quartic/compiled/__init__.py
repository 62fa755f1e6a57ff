"""The few compiled primitives that families of losses and solvers share."""
