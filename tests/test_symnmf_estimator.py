from sklearn.utils.estimator_checks import parametrize_with_checks
from quartic.estimators import SymNMF

@parametrize_with_checks([SymNMF(affinity="precomputed"), SymNMF(affinity="cosine"), SymNMF(affinity="self_tuning")])
def test_sklearn(estimator, check):
    check(estimator)
