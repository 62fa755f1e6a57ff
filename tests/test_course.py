"""A fit of several runs as one: Ctrl-C and the callback end all of it, and max_time is one limit for all."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from quartic import Problem, SymNMF, grow_rank, select_rank
from quartic.arrays.threads import limited_to, max_threads, spread
from quartic.clustering import course, symnmf
from quartic.clustering.consensus import find_consensus
from quartic.clustering.roles import cluster_both_sides
from quartic.compiled import graphs
from quartic.core.loop import _Minimization
from quartic.datasets import block_model
from quartic.graphs import normalize_graph
from quartic.init import factorization, spectral_start
from quartic.losses import LeastSquares
from quartic.penalties import Nonnegative

A, LABELS = block_model([50, 60, 70], 0.25, 0.02, random_state=0)  # its walks are factorised
DENSE = np.random.default_rng(0).random((180, 180)) + np.ones((180, 180))
DENSE = DENSE + DENSE.T
KNOWN = np.where(np.arange(len(LABELS)) % 9 == 0, LABELS, -1)
pytestmark = pytest.mark.filterwarnings("ignore:SymNMF did not converge")


class Stops:
    """A callback that counts runs, and ends the second iteration of the first one."""

    def __init__(self, how):
        self.how, self.runs, self.first = how, 0, threading.Lock()

    def __call__(self, progress):
        self.runs += progress.n_iter == 1
        if progress.n_iter == 2 and self.first.acquire(blocking=False):
            self.how()


def _raises(error):
    def how(*_, **__):
        raise error

    return how


@pytest.mark.parametrize("normalize", ["auto", "regularized"])
@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt, "interrupted"), (StopIteration, "callback")])
@pytest.mark.parametrize("y", [None, KNOWN])
def test_an_interrupt_ends_the_whole_fit(error, status, normalize, y):
    watch = Stops(_raises(error))
    model = SymNMF(3, n_init=20, normalize=normalize, tol=1e-12, callback=watch, random_state=0).fit(A, y)
    assert (watch.runs, model.result_.status) == (1, status)
    assert model.result_.message.startswith("interrupted in" if error is KeyboardInterrupt else "stopped by the")
    assert model.labels_.shape == (180,)


def test_a_signal_ends_runs_that_go_on_in_threads():
    watch = Stops(lambda: os.kill(os.getpid(), signal.SIGINT))
    settings = {"solver": "nolips", "tol": 0.0, "normalize": "regularized", "random_state": 0}
    model = SymNMF(3, n_init=20, n_jobs=2, max_iter=2000, callback=watch, **settings).fit(A)
    assert model.result_.status == "interrupted"
    assert watch.runs < 20


def _calls_of_minimize(monkeypatch, before):
    """Let ``before`` see each call of `minimize`."""
    calls, minimize = [], symnmf.minimize

    def call(*args, **kwargs):
        calls.append(kwargs)
        before(calls)
        return minimize(*args, **{**kwargs, "max_time": None})

    monkeypatch.setattr(symnmf, "minimize", call)
    return calls


@pytest.mark.parametrize("normalize", ["auto", "regularized"])
def test_an_interrupt_before_a_run_has_begun_keeps_those_that_are_made(monkeypatch, normalize):
    runs = 2 if normalize == "regularized" else 1

    def before(calls):
        if len(calls) == 2:
            raise KeyboardInterrupt

    calls = _calls_of_minimize(monkeypatch, before)
    model = SymNMF(3, n_init=runs, normalize=normalize, random_state=0).fit(A)
    assert (len(calls), model.result_.status) == (2, "interrupted")
    assert model.normalize_ == ("walks" if normalize == "auto" else normalize)
    monkeypatch.setattr(symnmf, "minimize", _raises(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        SymNMF(3, n_init=2, normalize=normalize).fit(A)


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
@pytest.mark.parametrize(("normalize", "n_init"), [("auto", 2), ("regularized", 9)])
def test_max_time_is_one_limit_for_all_runs(monkeypatch, normalize, n_init, n_jobs):
    """Every run takes three seconds of a clock that stands still otherwise."""
    clock = [0.0]
    monkeypatch.setattr(course.Course, "spent", lambda self: clock[0])

    def before(calls):
        clock[0] += 3.0

    calls = _calls_of_minimize(monkeypatch, before)
    model = SymNMF(3, n_init=n_init, normalize=normalize, max_time=10.0, n_jobs=n_jobs, random_state=0).fit(A)
    if n_jobs == 2:  # two at a time, in some order
        assert all(call["max_time"] <= 10.0 for call in calls)
        assert len(calls) <= 6
    else:
        assert [call["max_time"] for call in calls] == [10.0, 7.0, 4.0, 1.0]
    assert model.result_.success


def test_walks_that_take_half_of_the_time_are_given_up(monkeypatch):
    ticks = iter(range(1, 1000))
    monkeypatch.setattr(course.Course, "spent", lambda self: float(next(ticks)))
    model = SymNMF(3, max_time=2.0, random_state=0).fit(A)
    assert model.normalize_ == "regularized"
    assert SymNMF(3, max_time=500.0, normalize="walks", random_state=0).fit(A).normalize_ == "walks"


def test_walks_are_followed_in_pieces(monkeypatch):
    """Ctrl-C is heard between two calls of compiled code."""
    pieces, follow = [], graphs.follow_walks

    def call(first, last, *rest):
        pieces.append((first, last))
        follow(first, last, *rest)

    monkeypatch.setattr(graphs, "follow_walks", call)
    B, _ = block_model([400, 400], 0.02, 0.002, random_state=0)
    with limited_to(1):
        normalize_graph(B, "walks")
    assert pieces == [(0, 256), (256, 512), (512, 768), (768, 800)]


@pytest.fixture
def interrupt(monkeypatch):
    """Interrupt the first run that is made, whatever it is for."""
    reason, told = _Minimization.reason, []

    def interrupted(self):
        if not told:
            told.append(True)
            raise KeyboardInterrupt
        return reason(self)

    monkeypatch.setattr(_Minimization, "reason", interrupted)
    monkeypatch.setattr(factorization, "_projecting_helps", lambda *_: True)


def test_an_interrupt_ends_the_growth_of_the_rank(interrupt):
    found = grow_rank(Problem(LeastSquares(DENSE)), random_state=0)
    assert (found.ranks, found.success) == ((1,), False)
    assert found.message.startswith("stopped at rank 1: interrupted")


@pytest.mark.parametrize(
    "call",
    [
        lambda: select_rank(A, [2, 3], random_state=0),
        lambda: find_consensus(A, 3, n_runs=2, normalize="regularized", random_state=0),
        lambda: cluster_both_sides(A, 3, random_state=0),
        lambda: spectral_start(Problem(LeastSquares(DENSE), Nonnegative()), 3, np.random.default_rng(0)),
    ],
)
def test_what_has_no_best_so_far_passes_an_interrupt_on(interrupt, call):
    """`minimize` itself returns the best point; who uses it in passing must not go on with that."""
    with pytest.raises(KeyboardInterrupt):
        call()


@pytest.mark.skipif(max_threads() == 1, reason="needs two threads")
def test_after_an_error_no_thread_takes_another_piece():
    begun, done = threading.Event(), []

    def work(first, last):
        if threading.current_thread() is threading.main_thread():
            begun.wait(10)
            raise KeyboardInterrupt
        begun.set()
        time.sleep(0.05)
        done.extend(range(first, last))

    with pytest.raises(KeyboardInterrupt):
        spread(work, 1000, 1e12, one_by_one=True)
    assert len(done) < 20 * max_threads()
