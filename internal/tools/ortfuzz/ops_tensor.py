"""Generators: operators that move, select, arrange and resample elements; strings."""

import numpy as np
from onnx import helper

from draw import B, D, F, H, I, L, S, SMALL_INTS, WORDS, gen, is_float, proto_type


@gen("Reshape")
def reshape(d):
    s = d.shape(0, 4)
    n = int(np.prod(s))
    keep = [0 if d.chance(0.5) else k for k in s]  # 0 copies the dimension
    if n and s and d.chance(0.5):
        keep[d.int(0, len(s) - 1)] = -1
    target = d.pick((n,), (1, n), (n, 1), (-1,) if n else (n,), s, keep, keep[:1] + [-1] if n and s else (n, 1))
    attrs = {}
    if d.v >= 14 and d.chance(0.3):
        attrs, target = {"allowzero": 1}, s if n else d.pick(s, (0, 3), (2, 0))
    return [d.array(s), d.ints(*target)], attrs, 1


@gen("Transpose")
def transpose(d):
    s = d.shape(0, 6, most=33) if d.chance(0.8) else d.shape(2, 3, most=70)
    return [d.array(s)], {"perm": [int(p) for p in d.r.permutation(len(s))]} if s and d.chance(0.85) else {}, 1


@gen("Squeeze")
def squeeze(d):
    s = list(d.shape(0, 3))
    for _ in range(d.int(1, 2)):
        s.insert(d.int(0, len(s)), 1)
    ones = [k for k, n in enumerate(s) if n == 1]
    axes = [a for a in ones if d.chance(0.7)] or ones[:1]
    axes = [a - len(s) if d.v >= 11 and d.chance(0.5) else a for a in axes]
    if d.chance(0.3):
        return [d.array(tuple(s))], {}, 1
    if d.v < 13:
        return [d.array(tuple(s))], {"axes": axes}, 1
    return [d.array(tuple(s)), d.ints(*axes)], {}, 1


@gen("Unsqueeze")
def unsqueeze(d):
    s, n = d.shape(0, 4), d.int(1, 2)
    axes = [int(a) for a in d.r.permutation(len(s) + n)[:n]]
    if d.v < 13:
        axes = sorted(axes)
    axes = [a - len(s) - n if d.v >= 11 and d.chance(0.5) else a for a in axes]
    return ([d.array(s)], {"axes": axes}, 1) if d.v < 13 else ([d.array(s), d.ints(*axes)], {}, 1)


@gen("Flatten")
def flatten(d):
    s = d.shape(0 if d.v >= 9 else 1, 4)
    return [d.array(s)], {"axis": d.int(-len(s) if d.v >= 11 else 0, len(s))} if len(s) == 0 or d.chance(0.8) else {}, 1


@gen("Concat")
def concat(d):
    s = d.shape(1, 4)
    a = d.axis(len(s)) if d.v >= 11 else d.int(0, len(s) - 1)
    parts = []
    for _ in range(d.int(1, 4)):
        p = list(s)
        p[a] = int(d.pick(0, 1, 2, 3, 17))
        parts.append(d.array(tuple(p)))
    return parts, {"axis": a}, 1


@gen("Split")
def split(d):
    s = list(d.shape(1, 3))
    a = d.axis(len(s)) if d.v >= 11 else d.int(0, len(s) - 1)
    n = d.int(1, 4)
    if d.chance(0.3):  # equal parts
        s[a] = n * d.int(1, 3) if d.v < 18 or d.chance(0.5) else n * 3 - d.int(0, 1)
        return [d.array(tuple(s))], {"axis": a} | ({"num_outputs": n} if d.v >= 18 else {}), n
    sizes = [int(d.pick(0, 1, 2, 5)) for _ in range(n)]
    s[a] = sum(sizes)
    if d.v < 13:
        return [d.array(tuple(s))], {"axis": a, "split": sizes}, n
    return [d.array(tuple(s)), d.ints(*sizes)], {"axis": a}, n


@gen("Slice")
def window(d):
    s = d.shape(1, 4, most=33)
    big = 2**62
    axes = [int(a) for a in d.r.permutation(len(s))[:d.int(1, len(s))]]
    if d.chance(0.25) or d.v == 1:
        axes = sorted(axes)
    starts = [int(d.pick(0, 0, 1, -1, -2, 2, 9, -big, big)) for _ in axes]
    ends = [int(d.pick(0, 1, 2, 3, -1, 9, -big, big, big)) for _ in axes]
    if d.v < 10:
        return [d.array(s)], {"starts": starts, "ends": ends} | ({"axes": axes} if axes != list(range(len(axes))) or d.chance(0.5) else {}), 1
    t = d.type("Tind", I, L)
    clip = lambda v: np.array(np.clip(v, np.iinfo(t).min, np.iinfo(t).max), t)
    ins = [d.array(s), clip(starts), clip(ends)]
    if axes != list(range(len(axes))) or d.chance(0.6):
        ins.append(clip([a - len(s) if d.chance(0.5) else a for a in axes]))
        if d.chance(0.7):
            ins.append(clip([d.pick(1, 1, 2, 3, -1, -2, -3) for _ in axes]))
    elif d.chance(0.5):
        ins += [None, clip([d.pick(1, 2, -1) for _ in axes])]
    return ins, {}, 1


def index(d, n, shape, negative=True):
    return np.asarray(d.r.integers(-n if negative else 0, max(n, 1), shape))


@gen("Gather")
def gather(d):
    s = d.shape(1, 3, empty=False, most=33)
    a = d.axis(len(s)) if d.v >= 11 else d.int(0, len(s) - 1)
    return [d.array(s), index(d, s[a], d.shape(0, 2), d.v >= 11).astype(d.type("Tind", I, L))], {"axis": a}, 1


@gen("GatherElements")
def gather_elements(d):
    s = d.shape(1, 3, empty=False)
    a = d.axis(len(s))
    rows = tuple(d.int(0, n) if k != a % len(s) else d.int(1, 5) for k, n in enumerate(s))
    return [d.array(s), index(d, s[a], rows).astype(d.type("Tind", I, L))], {"axis": a}, 1


@gen("GatherND")
def gather_nd(d):
    s = d.shape(2, 4, empty=False)
    b = d.int(0, len(s) - 1) if d.v >= 12 and d.chance(0.4) else 0
    k = d.int(1, len(s) - b)
    rows = s[:b] + d.shape(0 if b else 1, 2)
    idx = np.stack([index(d, n, rows, d.v >= 11) for n in s[b:b + k]], -1)
    return [d.array(s), idx.astype(L)], {"batch_dims": b} if b else {}, 1


@gen("Scatter ScatterElements")
def scatter(d):
    s = d.shape(1, 3, empty=False)
    a = d.axis(len(s)) if d.v >= 11 else d.int(0, len(s) - 1)
    rows = tuple(d.int(1, n) for n in s)
    idx = index(d, s[a], rows, d.v >= 11)
    attrs = {"axis": a}
    if d.v >= 16 and d.t != S and d.chance(0.7):
        attrs["reduction"] = d.pick("add", "mul", *(("max", "min") if d.v >= 18 else ()))
        if d.t == B and attrs["reduction"] == "mul":
            attrs["reduction"] = "add"
    else:  # the same place twice has no defined order
        line = np.argsort(d.r.random(rows), axis=a % len(s)) if rows else idx
        idx = np.minimum(line, s[a] - 1)
    return [d.array(s, special=False, full=False), idx.astype(d.type("Tind", I, L)), d.array(rows, special=False, full=False)], attrs, 1


@gen("ScatterND")
def scatter_nd(d):
    s = d.shape(1, 3, empty=False)
    k = d.int(1, len(s))
    places = int(np.prod(s[:k]))
    n = d.int(0, places)
    flat = d.r.permutation(places)[:n]
    idx = np.stack(np.unravel_index(flat, s[:k]), -1).astype(L).reshape(n, k)
    attrs = {}
    if d.v >= 16 and d.t not in (S, B) and d.chance(0.6):
        attrs["reduction"] = d.pick("add", "mul", *(("max", "min") if d.v >= 18 else ()))
        idx = np.stack([index(d, m, (n,), True) for m in s[:k]], -1).astype(L).reshape(n, k)
    return [d.array(s, special=False, full=False), idx, d.array((n,) + s[k:], special=False, full=False)], attrs, 1


@gen("Pad")
def pad(d):
    s, mode = d.shape(1, 4, empty=False), d.pick("constant", "reflect", "edge", *(("wrap",) if d.v >= 19 else ()))
    if mode == "constant" and d.chance(0.2):
        s = d.shape(0, 3)
    axes = [int(a) for a in d.r.permutation(len(s))[:d.int(1, len(s))]] if d.v >= 18 and s and d.chance(0.5) else None
    least = -1 if s and min(s) > 2 and d.chance(0.3) else 0
    pads = []
    for n in [s[a] for a in axes] if axes else s:
        most = 4 if mode in ("constant", "edge") else max(n - 1, 0) if mode == "reflect" else n
        pads.append((d.int(least, most), d.int(least, most)))
    flat = [p[0] for p in pads] + [p[1] for p in pads]
    if d.v < 11:
        return [d.array(s)], {"mode": mode, "pads": flat} | d.maybe({"value": 1.5}), 1
    ins = [d.array(s), d.ints(*flat)]
    if mode == "constant" and d.chance(0.7):
        ins.append(d.array((), special=False))
    if axes:
        ins += [None] * (3 - len(ins)) + [np.array([a - len(s) if d.chance(0.5) else a for a in axes], d.type("Tind", I, L))]
    return ins, {"mode": mode}, 1


@gen("Expand")
def expand(d):
    s, p = d.pair()
    return [d.array(s), d.ints(*p)], {}, 1


@gen("Tile")
def tile(d):
    s = d.shape(0 if d.v >= 13 else 1, 3)
    return [d.array(s), d.ints(*(d.pick(0, 1, 2, 3) for _ in s))], {}, 1


@gen("Shape")
def shapes(d):
    s = d.shape(0, 5)
    attrs = d.maybe({"start": d.int(-7, 7), "end": d.int(-7, 7)}) if d.v >= 15 else {}
    return [d.array(s)], attrs, 1


@gen("Size")
def size(d):
    return [d.array(d.shape())], {}, 1


@gen("NonZero")
def nonzero(d):
    return [d.array(d.shape(1, 4))], {}, 1


@gen("OneHot", t="T3")
def onehot(d):
    s, n, t1 = d.shape(1, 3), d.int(2, 5), d.type("T1", L, I, F)
    idx = index(d, n + 1, s).astype(t1)  # some are out of range
    kinds = d.type("T2", L, I, F)
    count = np.array(n, kinds) if d.chance(0.5) else np.array([n], kinds)
    return [idx, count, d.array((2,), full=False)], {"axis": d.int(-len(s) - 1, len(s))}, 1


@gen("Trilu")
def triangle(d):
    return [d.array(d.shape(2, 4))] + ([np.array(d.int(-6, 6), L)] if d.chance(0.8) else []), d.maybe({"upper": d.flag()}), 1


@gen("EyeLike", t="T1")
def eye(d):
    return [d.array(d.shape(2, 2))], d.maybe({"dtype": int(proto_type(d.type("T2"))), "k": d.int(-4, 4)}), 1


@gen("ConstantOfShape", t="T2")
def constant_of_shape(d):
    value = helper.make_tensor("v", proto_type(d.t), [1], d.array((1,), full=False).astype(d.t).tobytes(), raw=True) if d.t not in SMALL_INTS and "float4" not in d.t.name else None
    if value is None:
        return None
    s = d.shape(0, 3)
    return [d.ints(*s)], {"value": value} if d.t != F or d.chance(0.7) else {}, 1


@gen("Dropout")
def dropout(d):
    x = d.array(d.shape())
    if d.v < 12:
        return [x], {"ratio": 0.3} | ({"is_test": 1} if d.v == 6 else {}), 1 if d.v < 10 else d.int(1, 2)
    if d.chance(0.5):
        return [x], {}, d.int(1, 2)
    return [x, np.array(d.pick(0.0, 0.5), d.type("T1", F)), np.array(False)], {}, d.int(1, 2), {"const": [2]}


@gen("Compress")
def compress(d):
    s = d.shape(1, 3, empty=False)
    if d.chance(0.3):
        return [d.array(s), d.array((d.int(1, int(np.prod(s))),), B)], {}, 1
    a = d.axis(len(s)) if d.v >= 11 else d.int(0, len(s) - 1)
    return [d.array(s), d.array((d.int(1, s[a]),), B)], {"axis": a}, 1


@gen("Unique")
def unique(d):
    s = d.shape(1, 3, empty=False)
    x = np.asarray(d.r.integers(0, 4, s)).astype(d.t) if d.t != S else d.array(s)
    attrs = d.maybe({"sorted": d.flag()}) | ({"axis": d.axis(len(s))} if d.chance(0.5) else {})
    return [x], attrs, d.pick("1111", "1000", "1010", "1001", "1110")


@gen("ReverseSequence")
def reverse_sequence(d):
    s = d.shape(2, 4, empty=False)
    time = d.flag()
    lengths = np.asarray(d.r.integers(1, s[time] + 1, s[1 - time]), L)
    return [d.array(s), lengths], {"time_axis": time, "batch_axis": 1 - time}, 1


@gen("DepthToSpace SpaceToDepth")
def depth(d):
    b = d.int(1, 3)
    n, c, h, w = d.int(1, 2), d.int(1, 2), d.int(1, 3), d.int(1, 3)
    if d.op == "SpaceToDepth":
        return [d.array((n, c, h * b, w * b))], {"blocksize": b}, 1
    return [d.array((n, c * b * b, h, w))], {"blocksize": b} | (d.maybe({"mode": d.pick("DCR", "CRD")}) if d.v >= 11 else {}), 1


@gen("CenterCropPad")
def center(d):
    s = d.shape(1, 3, empty=False)
    axes = d.axes(len(s)) if d.chance(0.5) else None
    n = len(axes) if axes else len(s)
    return [d.array(s), np.array([d.int(1, 7) for _ in range(n)], d.type("Tind"))], {"axes": axes} if axes else {}, 1


@gen("Col2Im")
def col2im(d):
    r = d.int(1, 3)
    image, k = [d.int(4, 7) for _ in range(r)], [d.int(1, 3) for _ in range(r)]
    st, di, pads = [d.int(1, 2) for _ in k], [d.int(1, 2) for _ in k], [d.int(0, 1) for _ in range(2 * r)]
    places = int(np.prod([(n + pads[i] + pads[i + r] - di[i] * (k[i] - 1) - 1) // st[i] + 1 for i, n in enumerate(image)]))
    return [d.array((d.int(1, 2), d.int(1, 2) * int(np.prod(k)), places), full=False, special=False), d.ints(*image), d.ints(*k)], {"strides": st, "dilations": di, "pads": pads}, 1


@gen("TensorScatter")
def tensor_scatter(d):
    s, at = list(d.shape(3, 4, empty=False)), -2
    s[at] = d.int(3, 6)
    n = d.int(1, s[at])
    u = list(s)
    u[at] = n
    circular = d.flag()
    where = np.asarray(d.r.integers(0, s[at] if circular else s[at] - n + 1, s[0]), L) if d.chance(0.7) else None
    return [d.array(tuple(s)), d.array(tuple(u)), where], {"mode": "circular" if circular else "linear"} | d.maybe({"axis": at}), 1


MODES = {10: [], 11: ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"]}
MODES[13] = MODES[11]
MODES[18] = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"]
MODES[19] = MODES[18] + ["half_pixel_symmetric"]


@gen("Resize", t="T1")
def resize(d):
    if d.v == 10:
        return upsample(d, "T")
    mode = d.pick("nearest", "linear", "cubic")
    r = 4 if mode == "cubic" else d.int(3, 4)
    s = (1, d.int(1, 2)) + tuple(d.int(1, 6) for _ in range(r - 2))
    coordinate = d.pick(*MODES[d.v])
    attrs = {"mode": mode, "coordinate_transformation_mode": coordinate}
    if mode == "nearest":
        attrs["nearest_mode"] = d.pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    if mode == "cubic":
        attrs |= d.maybe({"cubic_coeff_a": -0.5, "exclude_outside": d.flag()})
    if d.v >= 18 and mode != "nearest" and d.chance(0.3):
        attrs["antialias"] = 1
    roi = None
    if coordinate == "tf_crop_and_resize":
        roi = np.array([0] * r + [1] * r, F)
        roi[r - 2:r], roi[2 * r - 2:] = d.pick((0.1, 0.2), (-0.2, 0.3)), d.pick((0.8, 0.9), (1.2, 0.7))
        attrs |= d.maybe({"extrapolation_value": 7.0})
    ins = [d.array(s, special=False, full=False), roi if d.v >= 13 or roi is not None else np.zeros(0, F)]
    if d.chance(0.6):
        scales = [1, 1] + [d.pick(0.5, 0.6, 1.0, 1.5, 2.0, 2.7) for _ in s[2:]]
        if d.v >= 18 and roi is None and d.chance(0.3):
            return ins + [np.array(scales[2:], F)], attrs | {"axes": list(range(2, r))}, 1
        return ins + [np.array(scales, F)], attrs, 1
    sizes = [d.int(1, 9) for _ in s[2:]]
    empty = None if d.v >= 13 else np.zeros(0, F)
    if d.v >= 18 and roi is None and d.chance(0.4):
        policy = d.maybe({"keep_aspect_ratio_policy": d.pick("stretch", "not_larger", "not_smaller")})
        return ins + [empty, d.ints(*sizes)], attrs | policy | {"axes": list(range(2, r))}, 1
    return ins + [empty, d.ints(*s[:2], *sizes)], attrs, 1


@gen("Upsample")
def upsample(d, param="T"):
    mode = d.pick("nearest", "linear")
    s = (1, d.int(1, 2)) + tuple(d.int(1, 5) for _ in range(2))
    least = (0.5, 0.6) if d.op == "Resize" else ()
    scales = [1.0, 1.0] + [float(d.pick(1.0, 1.5, 2.0, 2.7, 3.0, *least)) for _ in range(2)]
    x = d.array(s, special=False, full=False)
    if d.v == 7:
        return [x], {"mode": mode, "scales": scales}, 1
    return [x, np.array(scales, F)], {"mode": mode}, 1


@gen("GridSample", t="T1")
def grid_sample(d):
    r = 2 if d.v < 20 or d.chance(0.6) else 3
    n = d.int(1, 2)
    s = (n, d.int(1, 3)) + tuple(d.int(1, 5) for _ in range(r))
    grid = np.asarray(d.r.uniform(-1.4, 1.4, (n,) + tuple(d.int(1, 4) for _ in range(r)) + (r,))).astype(d.t if is_float(d.t) else F)
    modes = ("bilinear", "nearest", "bicubic") if d.v < 20 else ("linear", "nearest", "cubic")
    mode = d.pick(*(modes if r == 2 else modes[:2]))
    return [d.array(s, special=False, full=False), grid], {"mode": mode, "padding_mode": d.pick("zeros", "border", "reflection"), "align_corners": d.flag()}, 1


@gen("AffineGrid", t="T1")
def affine_grid(d):
    r, n = d.int(2, 3), d.int(1, 2)
    return [d.near((n, r, r + 1)), d.ints(n, d.int(1, 3), *(d.int(1, 5) for _ in range(r)))], d.maybe({"align_corners": d.flag()}), 1


@gen("RoiAlign", t="T1")
def roi_align(d):
    n, k = d.int(1, 2), d.int(1, 3)
    corner = np.asarray(d.r.uniform(-1, 8, (k, 2)))
    rois = np.concatenate([corner, corner + d.r.uniform(0.5, 9, (k, 2))], 1).astype(d.t)
    attrs = {"output_height": d.int(1, 4), "output_width": d.int(1, 4), "sampling_ratio": d.int(0, 3), "spatial_scale": float(d.pick(1.0, 0.5)), "mode": d.pick("avg", "max")}
    if d.v >= 16:
        attrs |= d.maybe({"coordinate_transformation_mode": d.pick("half_pixel", "output_half_pixel")})
    return [d.near((n, d.int(1, 2), d.int(4, 8), d.int(4, 8))), rois, np.asarray(d.r.integers(0, n, k), L)], attrs, 1


@gen("MaxRoiPool")
def max_roi_pool(d):
    n, k = d.int(1, 2), d.int(1, 3)
    corner = np.asarray(d.r.integers(0, 5, (k, 2)))
    rois = np.concatenate([d.r.integers(0, n, (k, 1)), corner, corner + d.r.integers(0, 6, (k, 2))], 1).astype(d.t)
    return [d.near((n, d.int(1, 2), d.int(4, 8), d.int(4, 8))), rois], {"pooled_shape": [d.int(1, 3), d.int(1, 3)]} | d.maybe({"spatial_scale": 0.5}), 1


@gen("NonMaxSuppression", t="")
def nms(d):
    b, c, n = d.int(1, 2), d.int(1, 2), d.int(0, 9)
    low = d.r.uniform(0, 4, (b, n, 2))
    center = d.flag()
    boxes = np.concatenate([low, d.r.uniform(0.5, 3, (b, n, 2)) + (0 if center else low)], 2)
    if not center and d.chance(0.3):
        boxes = boxes[..., [2, 3, 0, 1]]  # the other diagonal
    ins = [boxes.astype(F), d.r.random((b, c, n)).astype(F)]
    more = [np.array([d.int(0, 5)], L), np.array([d.r.uniform(0, 1)], F), np.array([d.r.uniform(0, 0.6)], F)]
    return ins + more[:d.int(0, 3)], {"center_point_box": center}, 1


@gen("StringConcat")
def string_concat(d):
    s, p = d.pair(3)
    return [d.array(s, S), d.array(p, S)], {}, 1


@gen("StringSplit", t="T1")
def string_split(d):
    return [d.array(d.shape(0, 2), S)], d.maybe({"maxsplit": d.int(0, 3), "delimiter": d.pick(",", " ", "a", "", ",,")}), 2


@gen("RegexFullMatch", t="T1")
def regex(d):
    return [d.array(d.shape(0, 2), S)], {"pattern": d.pick("a+", ".*", "[a-z ]*", "\\d+", "(a|b)*", "", "-?\\d+(\\.\\d+)?", "\\w+", "..")}, 1


@gen("StringNormalizer", t="")
def normalizer(d):
    x = np.array([d.pick(*[w for w in WORDS if w.isascii()]) for _ in range(d.int(1, 5))], object)
    if d.chance(0.3):
        x = x.reshape(1, -1)
    attrs = {"case_change_action": d.pick("LOWER", "UPPER", "NONE")} | d.maybe({"is_case_sensitive": d.flag(), "stopwords": ["a", "AB", "the cat"]})
    return [x], attrs, 1


@gen("TfIdfVectorizer")
def tfidf(d):
    pool = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]  # three of one, the rest of two
    attrs = {"mode": d.pick("TF", "IDF", "TFIDF"), "min_gram_length": d.int(1, 2), "max_gram_length": 2, "max_skip_count": d.int(0, 3),
             "ngram_counts": [0, 4], "ngram_indexes": [0, 1, 2, 3, 4, 5, 6]} | d.maybe({"weights": [1.0, 2.0, 0.5, 3.0, 1.5, 0.25, 4.0]})
    x = np.asarray(d.r.integers(2, 9, d.pick((9,), (2, 6), (1,), (3, 4))))
    if d.t == S:
        return [x.astype(str).astype(object)], attrs | {"pool_strings": [str(p) for p in pool]}, 1
    return [x.astype(d.t)], attrs | {"pool_int64s": pool}, 1


@gen("RandomNormalLike RandomUniformLike", t="T1")
def random_like(d):
    return [d.array(d.shape(0, 3))], {"dtype": int(d.pick(1, 11))}, 1


@gen("Bernoulli", t="T1")
def bernoulli(d):
    return [np.asarray(d.r.random(d.shape(0, 3))).astype(d.t)], {}, 1
