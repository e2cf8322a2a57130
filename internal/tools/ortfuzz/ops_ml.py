"""Generators: the ai.onnx.ml domain."""

import numpy as np
from onnx import helper

from draw import B, D, F, I, L, S, gen, proto_type

ML = "ai.onnx.ml"
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")


def rows(d, cols, least=1):
    """A batch of features, or one row without a batch."""
    s = (d.int(least, 4), cols)
    return d.array(s, special=False, full=False) if d.t.kind == "i" else d.near(s)


def numbers(d, n, lo=-2.0, hi=2.0):
    return [float(np.float32(v)) for v in d.r.uniform(lo, hi, n)]


@gen("ArrayFeatureExtractor", domain=ML)
def extract(d):
    s = d.shape(1, 3, empty=False)
    return [d.array(s), np.asarray(d.r.integers(0, s[-1], (1, d.int(1, 4))), L)], {}, 1


@gen("Binarizer", domain=ML)
def binarize(d):
    return [d.array(d.shape(1, 2, empty=False), special=False)], d.maybe({"threshold": 0.5}), 1


@gen("CategoryMapper", t="T1", domain=ML)
def category(d):
    words = ["a", "b", "c", "dd"]
    attrs = {"cats_strings": words, "cats_int64s": [3, 7, 9, -1]} | d.maybe({"default_string": "zz", "default_int64": -5})
    s = d.shape(1, 2, empty=False)
    x = np.array([d.pick(*words, "q") for _ in range(int(np.prod(s)))], object).reshape(s) if d.t == S else np.asarray(d.r.choice([3, 7, 9, -1, 5], s), L)
    return [x], attrs, 1


@gen("DictVectorizer", t="", domain=ML)
def dictionary(d):
    given = {w: float(np.float32(d.r.normal())) for w in "abcd" if d.chance(0.6)} or {"a": 1.0}
    return [given], {"string_vocabulary": ["d", "a", "x", "b"]}, 1


@gen("CastMap", t="", domain=ML)
def cast_map(d):
    keys = [int(k) for k in sorted(d.r.choice(6, 3, replace=False))]
    to = d.pick("TO_FLOAT", "TO_INT64", "TO_STRING")
    given = {k: float(d.int(-4, 4)) for k in keys}
    sparse = {"map_form": "SPARSE", "max_map": 7} if d.chance(0.5) else {"map_form": "DENSE"}
    return [given], {"cast_to": to} | sparse, 1


@gen("FeatureVectorizer", t="T1", domain=ML)
def features(d):
    n, dims = d.int(1, 3), [d.int(1, 3) for _ in range(d.int(1, 3))]
    xs = [d.array((n, k), special=False) for k in dims]
    return xs, {"inputdimensions": [k + d.pick(0, 0, 1, -1 if k > 1 else 0) for k in dims]}, 1


@gen("Imputer", domain=ML)
def impute(d):
    x = rows(d, 3)
    if d.t.kind == "i":
        return [np.where(d.r.random(x.shape) < 0.3, 4, x).astype(d.t)], {"replaced_value_int64": 4, "imputed_value_int64s": d.pick([9], [7, 8, 9])}, 1
    bad = float(d.pick(np.nan, 4.0))
    return [np.where(d.r.random(x.shape) < 0.3, bad, x).astype(d.t)], {"replaced_value_float": bad, "imputed_value_floats": d.pick([9.0], [7.0, 8.0, 9.5])}, 1


@gen("LabelEncoder", t="T1", domain=ML)
def labels(d):
    keys = {"s": ["a", "b", "", "dd"], "i": [3, 7, -1, 0], "f": [0.5, 2.0, float("nan"), -1.0]}
    names = {"s": "strings", "i": "int64s", "f": "floats"}
    s = d.shape(0, 2)
    if d.v == 1:
        words = ["a", "b", "c"]
        x = np.array([d.pick("a", "c", "zz") for _ in range(int(np.prod(s)))], object).reshape(s) if d.t == S else np.asarray(d.r.integers(-1, 4, s), L)
        return [x], {"classes_strings": words} | d.maybe({"default_string": "none", "default_int64": -9}), 1
    k = "s" if d.t == S else "i" if d.t.kind == "i" else "f"
    v = d.pick("s", "i", "f")
    pool = keys[k] + {"s": ["zz"], "i": [99], "f": [7.5]}[k]
    x = np.array([d.pick(*pool) for _ in range(int(np.prod(s)))], object if k == "s" else d.t).reshape(s)
    if d.v >= 4 and d.t not in (S, np.dtype(L), np.dtype(F)):
        from runtime import tensor
        to = np.array([1, 5, 6, 7], d.pick(d.t, L)) if k == "i" else np.array([1.5, 2, 3, 4], d.t)
        if to.dtype != d.t and to.dtype != L:
            return None
        return [x], {"keys_tensor": tensor(np.array(keys[k], d.t)), "values_tensor": tensor(to), "default_tensor": tensor(np.array([-3], to.dtype))}, 1
    values = {"s": ["x", "", "yy", "z"], "i": [1, 5, 6, 7], "f": [1.5, -0.0, 3.0, 4.0]}[v]
    if d.v >= 4 and d.chance(0.3):  # the last of equal keys counts
        keys[k] = keys[k][:2] + keys[k][:2]
    return [x], {"keys_" + names[k]: keys[k], "values_" + names[v]: values} | d.maybe({"default_string": "none", "default_int64": -9, "default_float": -2.5}), 1


@gen("LinearRegressor", domain=ML)
def linear(d):
    n, k = d.int(1, 3), d.int(1, 4)
    attrs = {"targets": n, "coefficients": numbers(d, n * k)} | d.maybe({"intercepts": numbers(d, n)})
    return [rows(d, k)], attrs | d.maybe({"post_transform": d.pick(*TRANSFORMS[:4])}), 1


def classes(d, n, ints="classlabels_int64s"):
    return {ints: [int(v) for v in d.r.permutation(9)[:n]]} if d.chance(0.5) else {"classlabels_strings": ["c%d" % k for k in range(n)]}


@gen("LinearClassifier", t="T1", domain=ML)
def linear_classes(d):
    n, k = int(d.pick(1, 2, 3, 4)), d.int(1, 4)
    attrs = {"coefficients": numbers(d, n * k), "intercepts": numbers(d, n), "multi_class": d.flag()} | classes(d, max(n, 2) if n == 1 else n, "classlabels_ints")
    return [rows(d, k)], attrs | d.maybe({"post_transform": d.pick(*TRANSFORMS[:4])}), 2


@gen("Normalizer", domain=ML)
def normalize(d):
    return [rows(d, 3) if d.chance(0.8) else rows(d, 3)[0]], {"norm": d.pick("MAX", "L1", "L2")}, 1


@gen("OneHotEncoder", domain=ML)
def one_hot(d):
    s = d.shape(1, 2)
    if d.t == S:
        return [np.array([d.pick("a", "b", "zz") for _ in range(int(np.prod(s)))], object).reshape(s)], {"cats_strings": ["b", "a", "c"]} | d.maybe({"zeros": 1}), 1
    return [np.asarray(d.r.integers(0, 6, s)).astype(d.t)], {"cats_int64s": [3, 1, 0, 4]} | d.maybe({"zeros": 1}), 1


@gen("Scaler", domain=ML)
def scale(d):
    n = int(d.pick(1, 3))
    return [rows(d, 3)], {"offset": numbers(d, n), "scale": numbers(d, n)}, 1


@gen("ZipMap", t="", domain=ML)
def zip_map(d):
    n = d.int(1, 4)
    return [d.near((d.int(1, 3), n) if d.chance(0.8) else (n,), F)], classes(d, n), 1


def svm(d, n, k):
    kind = d.pick("LINEAR", "POLY", "RBF", "SIGMOID")
    return {"kernel_type": kind, "kernel_params": [0.5, 0.3, float(d.int(1, 3))], "support_vectors": numbers(d, n * k)}


@gen("SVMRegressor", domain=ML)
def svm_regression(d):
    n, k = d.int(1, 4), d.int(1, 3)
    attrs = svm(d, n, k) | {"n_supports": n, "coefficients": numbers(d, n), "rho": numbers(d, 1)} | d.maybe({"one_class": d.flag()})
    if d.chance(0.2):
        attrs |= {"n_supports": 0, "kernel_type": "LINEAR", "coefficients": numbers(d, k)}
        attrs.pop("support_vectors")
    return [rows(d, k)], attrs, 1


@gen("SVMClassifier", t="T1", domain=ML)
def svm_classes(d):
    c, k = d.int(2, 4), d.int(1, 3)
    per = [d.int(1, 3) for _ in range(c)]
    n, pairs = sum(per), c * (c - 1) // 2
    attrs = svm(d, n, k) | {"vectors_per_class": per, "coefficients": numbers(d, (c - 1) * n), "rho": numbers(d, pairs)}
    if d.chance(0.4):
        attrs |= {"prob_a": numbers(d, pairs, -2, -0.5), "prob_b": numbers(d, pairs)}
    return [rows(d, k)], attrs | classes(d, c, "classlabels_ints") | d.maybe({"post_transform": d.pick(*TRANSFORMS[:4])}), 2


MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def forest(d, features):
    """Random trees as lists of nodes: (tree, id, mode, feature, value, true, false, missing)."""
    modes = MODES if d.chance(0.3) else (d.pick(*MODES[:4]),)
    out, leaves = [], []
    for tree in range(d.int(1, 4)):
        free = [0]

        def grow(deep):
            me = free[0]
            free[0] += 1
            if deep == 0 or d.chance(0.2):
                out.append((tree, me, "LEAF", 0, 0.0, 0, 0, 0))
                leaves.append((tree, me))
                return me
            place = len(out)
            out.append(None)
            yes, no = grow(deep - 1), grow(deep - 1)
            value = float(d.int(-3, 3)) if d.t.kind == "i" else float(np.float32(d.r.normal()))
            out[place] = (tree, me, d.pick(*modes), d.int(0, features - 1), value, yes, no, d.flag())
            return me

        grow(d.int(0, 4))
    return out, leaves


def forest_attrs(nodes, missing):
    cols = list(zip(*nodes))
    attrs = {"nodes_treeids": cols[0], "nodes_nodeids": cols[1], "nodes_modes": cols[2], "nodes_featureids": cols[3], "nodes_values": cols[4],
             "nodes_truenodeids": cols[5], "nodes_falsenodeids": cols[6]}
    if missing:
        attrs["nodes_missing_value_tracks_true"] = cols[7]
    return {k: list(v) for k, v in attrs.items()}


def weights(d, attrs, kind, leaves, targets):
    at = [(t, n, c, w) for t, n in leaves for c in (d.r.permutation(targets)[:d.int(1, targets)]) for w in numbers(d, 1)]
    cols = list(zip(*at))
    attrs |= {kind + "_treeids": [int(v) for v in cols[0]], kind + "_nodeids": [int(v) for v in cols[1]], kind + "_ids": [int(v) for v in cols[2]],
              kind + "_weights": list(cols[3])}
    if d.v >= 3 and d.t == D and d.chance(0.7):  # as tensors of doubles
        from runtime import tensor
        attrs[kind + "_weights_as_tensor"] = tensor(np.array(attrs.pop(kind + "_weights"), D))
        attrs["nodes_values_as_tensor"] = tensor(np.array(attrs.pop("nodes_values"), D))
    return attrs


def with_gaps(d, x):
    return np.where(d.r.random(x.shape) < 0.15, np.nan, x).astype(x.dtype) if x.dtype.kind == "f" and d.chance(0.4) else x


@gen("TreeEnsembleRegressor", domain=ML)
def tree_regression(d):
    k, targets = d.int(1, 4), d.int(1, 3)
    nodes, leaves = forest(d, k)
    attrs = weights(d, forest_attrs(nodes, d.chance(0.5)), "target", leaves, targets) | {"n_targets": targets}
    if d.chance(0.4) and "target_weights" in attrs:
        attrs["base_values"] = numbers(d, targets)
    attrs |= d.maybe({"aggregate_function": d.pick("SUM", "AVERAGE", "MIN", "MAX"), "post_transform": d.pick(*TRANSFORMS[:4])})
    return [with_gaps(d, rows(d, k))], attrs, 1


@gen("TreeEnsembleClassifier", t="T1", domain=ML)
def tree_classes(d):
    k, c = d.int(1, 4), d.int(2, 4)
    nodes, leaves = forest(d, k)
    binary = c == 2 and d.chance(0.5)
    attrs = weights(d, forest_attrs(nodes, d.chance(0.5)), "class", leaves, 1 if binary else c) | classes(d, c)
    if d.chance(0.4) and "class_weights" in attrs:
        attrs["base_values"] = numbers(d, 1 if binary else c)
    return [with_gaps(d, rows(d, k))], attrs | d.maybe({"post_transform": d.pick(*TRANSFORMS[:4])}), 2


@gen("TreeEnsemble", domain=ML)
def tree_ensemble(d):
    from runtime import tensor
    k, targets = d.int(1, 3), d.int(1, 3)
    inner, leaf = [], []

    def grow(deep):
        """The number of a node and whether it is a leaf."""
        if deep == 0:
            leaf.append((d.int(0, targets - 1), float(np.float32(d.r.normal()))))
            return len(leaf) - 1, 1
        me = len(inner)
        inner.append(None)
        inner[me] = (d.int(0, k - 1), d.int(0, 5), float(np.float32(d.r.normal())), *grow(deep - d.int(1, deep)), *grow(deep - 1), d.flag())
        return me, 0

    roots = [grow(d.int(1, 3))[0] for _ in range(d.int(1, 3))]
    cols = list(zip(*inner))
    attrs = {"nodes_featureids": cols[0], "nodes_modes": tensor(np.array(cols[1], np.uint8)), "nodes_splits": tensor(np.array(cols[2], d.t)),
             "nodes_truenodeids": list(cols[3]), "nodes_trueleafs": list(cols[4]), "nodes_falsenodeids": list(cols[5]), "nodes_falseleafs": list(cols[6]),
             "leaf_targetids": [t for t, _ in leaf], "leaf_weights": tensor(np.array([w for _, w in leaf], d.t)), "tree_roots": roots, "n_targets": targets,
             "aggregate_function": d.pick(0, 1, 2, 3), "post_transform": d.pick(0, 1, 2, 3)} | d.maybe({"nodes_missing_value_tracks_true": list(cols[7])})
    return [with_gaps(d, rows(d, k))], attrs, 1
