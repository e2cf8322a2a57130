"""Operators of the ai.onnx.ml domain whose operands and results are tensors."""

import numpy as np

from golden import source

f32 = np.float32
ML = "ai.onnx.ml"


def cases(book):
    def ml(name, op, inputs, outputs=1, **kw):
        return book.add(name, op, inputs, outputs, domain=ML, **kw)

    columns(ml)
    words(ml)
    linear(ml)
    vectors(ml)
    trees(ml)


def columns(ml):
    r = source(51)
    ml("Scaler", "Scaler", [r(3, 4)], offset=[0.5, -1.0, 2.0, 0.25], scale=[2.0, 0.5, 1.5, -1.0])
    ml("Scaler_one", "Scaler", [r(3, 4)], offset=[0.5], scale=[2.0])
    ml("Scaler_int64", "Scaler", [r.ints(-9, 9, 3, 4)], offset=[0.5], scale=[2.0])
    for norm in ("MAX", "L1", "L2"):
        ml(f"Normalizer_{norm}", "Normalizer", [r(3, 4)], norm=norm)
        ml(f"Normalizer_{norm}_row", "Normalizer", [r(5)], norm=norm)
    holes = r(3, 4)
    holes[0, 1] = holes[2, 3] = 2.5
    ml("Imputer", "Imputer", [holes], imputed_value_floats=[1.5, -2.5, 3.5, 4.5], replaced_value_float=2.5)
    ml("Imputer_one", "Imputer", [r.ints(0, 3, 3, 4)], imputed_value_int64s=[9], replaced_value_int64=1)
    ml("FeatureVectorizer", "FeatureVectorizer", [r(2, 3), r(2, 2)], inputdimensions=[3, 2])
    ml("FeatureVectorizer_int64", "FeatureVectorizer", [r.ints(0, 9, 2, 3), r.ints(0, 9, 2, 1)], inputdimensions=[3, 1])


def words(ml):
    text = np.array([["a", "c"], ["zz", "b"]], dtype=object)
    ml("CategoryMapper_ints", "CategoryMapper", [text], cats_int64s=[3, 1, 2], cats_strings=["a", "b", "c"], default_int64=-7)
    ml("CategoryMapper_strings", "CategoryMapper", [np.array([3, 8, 2])], cats_int64s=[3, 1, 2], cats_strings=["a", "b", "c"], default_string="none")
    ml("OneHotEncoder_ints", "OneHotEncoder", [np.array([[1, 5], [2, 9]])], cats_int64s=[1, 2, 9], zeros=1)
    ml("OneHotEncoder_floats", "OneHotEncoder", [np.array([[1, 5], [2, 9]], f32)], cats_int64s=[1, 2, 9], zeros=1)
    ml("OneHotEncoder_strings", "OneHotEncoder", [text], cats_strings=["a", "b", "c"], zeros=1)


def linear(ml):
    r = source(52)
    floats = lambda *shape: [float(v) for v in r(*shape).reshape(-1)]
    transforms = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    for post in transforms:
        x = r(3, 4, scale=0.3)
        small = lambda *shape: [round(v * 0.05, 4) for v in floats(*shape)]
        if post != "PROBIT":
            ml(f"LinearClassifier_{post}", "LinearClassifier", [x], 2, coefficients=floats(3, 4), intercepts=floats(3), classlabels_ints=[4, 9, 2],
               post_transform=post, multi_class=1)
            ml(f"LinearRegressor_{post}", "LinearRegressor", [x], coefficients=floats(2, 4), intercepts=floats(2), targets=2, post_transform=post)
        else:
            ml("LinearRegressor_PROBIT", "LinearRegressor", [abs(x)], coefficients=[abs(v) for v in small(1, 4)], intercepts=[0.4], targets=1,
               post_transform=post)
    ml("LinearClassifier_strings", "LinearClassifier", [r(3, 4)], 2, coefficients=floats(3, 4), intercepts=floats(3),
       classlabels_strings=["x", "y", "z"], post_transform="NONE")
    ml("LinearClassifier_two", "LinearClassifier", [r(3, 4)], 2, coefficients=floats(1, 4), intercepts=floats(1), classlabels_ints=[0, 1],
       post_transform="LOGISTIC")
    ml("LinearClassifier_int64", "LinearClassifier", [r.ints(-3, 4, 3, 4)], 2, coefficients=floats(3, 4), intercepts=floats(3),
       classlabels_ints=[0, 1, 2], post_transform="NONE")


def vectors(ml):
    r = source(53)
    floats = lambda *shape: [float(v) for v in r(*shape).reshape(-1)]
    kernels = {"LINEAR": [0.0, 0.0, 0.0], "RBF": [0.4, 0.0, 0.0], "POLY": [0.5, 1.0, 2.0], "SIGMOID": [0.3, 0.1, 0.0]}
    for kind, params in kernels.items():
        ml(f"SVMRegressor_{kind}", "SVMRegressor", [r(3, 4)], coefficients=floats(5), support_vectors=floats(5, 4), rho=[0.25], n_supports=5,
           kernel_type=kind, kernel_params=params)
        ml(f"SVMClassifier_{kind}", "SVMClassifier", [r(4, 4)], 2, coefficients=floats(2, 6), support_vectors=floats(6, 4), rho=floats(3),
           vectors_per_class=[2, 3, 1], classlabels_ints=[3, 5, 8], kernel_type=kind, kernel_params=params)
    ml("SVMRegressor_one_class", "SVMRegressor", [r(3, 4)], coefficients=floats(5), support_vectors=floats(5, 4), rho=[0.25], n_supports=5,
       kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0], one_class=1)
    ml("SVMRegressor_linear", "SVMRegressor", [r(3, 4)], coefficients=floats(4), rho=[0.25], kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0])
    ml("SVMClassifier_prob", "SVMClassifier", [r(4, 4)], 2, coefficients=floats(2, 6), support_vectors=floats(6, 4), rho=floats(3), prob_a=floats(3),
       prob_b=floats(3), vectors_per_class=[2, 3, 1], classlabels_strings=["p", "q", "r"], kernel_type="RBF", kernel_params=[0.4, 0.0, 0.0])
    ml("SVMClassifier_two", "SVMClassifier", [r(4, 4)], 2, coefficients=floats(1, 5), support_vectors=floats(5, 4), rho=[0.1],
       vectors_per_class=[2, 3], classlabels_ints=[0, 1], kernel_type="RBF", kernel_params=[0.4, 0.0, 0.0])


def trees(ml):
    r = source(54)
    # two trees; nodes 0 and 2 of the first and node 0 of the second decide
    nodes = dict(nodes_treeids=[0, 0, 0, 0, 0, 1, 1, 1], nodes_nodeids=[0, 1, 2, 3, 4, 0, 1, 2],
                 nodes_featureids=[0, 0, 2, 0, 0, 1, 0, 0], nodes_values=[0.25, 0.0, -0.5, 0.0, 0.0, 0.1, 0.0, 0.0],
                 nodes_truenodeids=[1, 0, 3, 0, 0, 1, 0, 0], nodes_falsenodeids=[2, 0, 4, 0, 0, 2, 0, 0],
                 nodes_missing_value_tracks_true=[1, 0, 0, 0, 0, 1, 0, 0])
    where = dict(treeids=[0, 0, 0, 1, 1], nodeids=[1, 3, 4, 1, 2])
    weights = [0.5, -1.25, 2.0, 0.75, -0.5]
    x = r(6, 3)
    x[1, 0] = np.nan
    for mode in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ"):
        modes = ["LEAF" if t == 0 and f == 0 else f"BRANCH_{mode}" for t, f in zip(nodes["nodes_truenodeids"], nodes["nodes_falsenodeids"])]
        targets = {f"target_{k}": v for k, v in where.items()}
        ml(f"TreeEnsembleRegressor_{mode}", "TreeEnsembleRegressor", [x], **nodes, nodes_modes=modes, **targets, target_ids=[0, 1, 0, 1, 0],
           target_weights=weights, n_targets=2)
    targets = {f"target_{k}": v for k, v in where.items()}
    ml("TreeEnsembleRegressor_base", "TreeEnsembleRegressor", [x], **nodes, nodes_modes=modes, **targets, target_ids=[0] * 5,
       target_weights=weights, n_targets=1, base_values=[0.5])
    leaf = ["BRANCH_LEQ", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"]
    for how in ("SUM", "AVERAGE", "MIN", "MAX"):
        targets = {f"target_{k}": v for k, v in where.items()}
        ml(f"TreeEnsembleRegressor_{how}", "TreeEnsembleRegressor", [x], **nodes, nodes_modes=leaf, **targets, target_ids=[0] * 5,
           target_weights=weights, n_targets=1, aggregate_function=how)
    classes = {f"class_{k}": v for k, v in where.items()}
    for post in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
        ml(f"TreeEnsembleClassifier_{post}", "TreeEnsembleClassifier", [x], 2, **nodes, nodes_modes=leaf, **classes, class_ids=[0, 1, 2, 1, 0],
           class_weights=[0.5, -1.25, 2.0, 0.75, -0.25], classlabels_int64s=[4, 6, 9], post_transform=post)
    ml("TreeEnsembleClassifier_strings", "TreeEnsembleClassifier", [x], 2, **nodes, nodes_modes=leaf, **classes, class_ids=[0, 1, 2, 1, 0],
       class_weights=weights, classlabels_strings=["u", "v", "w"])
    ml("TreeEnsembleClassifier_two", "TreeEnsembleClassifier", [x], 2, **nodes, nodes_modes=leaf, **classes, class_ids=[0] * 5,
       class_weights=weights, classlabels_int64s=[0, 1], post_transform="LOGISTIC")
