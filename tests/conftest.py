"""One hypothesis profile for all: no deadline, since compiled code is slow the first time."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "quartic", deadline=None, max_examples=40, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("quartic")
