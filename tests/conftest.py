"""One hypothesis profile for all: no deadline, since compiled code is slow the first time; one Dask cluster for all."""

import logging

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "quartic", deadline=None, max_examples=40, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("quartic")
STATES = pytest.StashKey[dict]()


@pytest.fixture(scope="session")
def cluster():
    """Two worker processes; loopback, and ports that happen to be free."""
    distributed = pytest.importorskip("distributed", reason='needs pip install "quartic[distributed]"')
    quiet = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **quiet) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    """A client of the two workers, the current one while a test runs."""
    import distributed

    with distributed.Client(cluster) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture
def file(tmp_path):
    """Write a file of these bytes or words, and return where it is."""

    def write(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture(autouse=True)
def same_numbers_in_any_order(request):
    """A module's `RNG` begins each test as it was after import: which tests ran before here must not matter."""
    numbers = getattr(request.module, "RNG", None)
    if numbers is not None:
        states = request.config.stash.setdefault(STATES, {})
        numbers.bit_generator.state = states.setdefault(request.module.__name__, numbers.bit_generator.state)


@pytest.fixture
def no_way_to_numpy(monkeypatch):
    """Tensors of the host that NumPy cannot take for arrays, as it cannot those of a GPU."""
    import torch

    def refuse(*args, **kwargs):
        raise TypeError("a tensor of a GPU is not for NumPy")

    for name in ("__array__", "__array_wrap__"):
        monkeypatch.setattr(torch.Tensor, name, refuse)
