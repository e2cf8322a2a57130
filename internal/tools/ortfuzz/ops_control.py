"""Generators: branches, loops, scans, sequences and optionals, alone and in small
graphs that make and take them."""

import numpy as np
from onnx import TensorProto, helper

from draw import B, D, F, I, L, S, gen, is_float, proto_type


def info(name, dtype, shape=None):
    return helper.make_tensor_value_info(name, proto_type(dtype), shape)


def node(op, ins, outs, **attrs):
    return helper.make_node(op, ins, outs if isinstance(outs, list) else [outs], **attrs)


def constant(name, a):
    from runtime import tensor
    return node("Constant", [], name, value=tensor(np.asarray(a), name))


def plus(d):
    """An operator of two operands that every type has a kernel for."""
    if d.t == np.dtype(F):
        return d.pick("Add", "Mul", "Sub", "Max")
    return "Add" if d.t in [np.dtype(t) for t in (D, I, L)] else None


def combine(d, a, b, out):
    """A node that makes out of a and b, of any type."""
    op = plus(d)
    return node(op, [a, b], out) if op else node("Identity", [d.pick(a, b)], out)


@gen("If", t="V")
def branch(d):
    s = d.shape(0, 3)
    x, y = d.array(s), d.array(s)
    then = [combine(d, "x", "y", "t0"), node("Identity", ["y"], "t1")]
    other = [node("Identity", ["x"], "e0"), constant("e1", d.array(s if d.chance(0.7) else d.shape(0, 2)))]
    if d.chance(0.5):  # a branch in a branch
        inner = [helper.make_graph([node("Identity", [d.pick("x", "y")], "r")], f"g{k}", [], [info("r", d.t)]) for k in range(2)]
        other[0] = node("If", ["i0"], "e0", then_branch=inner[0], else_branch=inner[1])
    t = helper.make_graph(then, "then", [], [info("t0", d.t), info("t1", d.t)])
    e = helper.make_graph(other, "else", [], [info("e0", d.t), info("e1", d.t)])
    cond = np.array(d.chance(0.5)) if d.chance(0.7) else np.array([d.chance(0.5)])
    return [cond], {"then_branch": t, "else_branch": e}, 2, {"captured": {"x": x, "y": y}}


@gen("Loop", t="V")
def loop(d):
    s = d.shape(0, 2)
    v, c = d.array(s, special=False, full=False), d.array(s, special=False, full=False)
    w = d.array(s, special=False)
    grow = len(s) > 0 and d.chance(0.3)
    ins = [info("iter", L, []), info("cond", B, []), info("v", d.t), info("w", d.t)]
    body = [constant("stop", np.array(d.int(0, 5))), node("Less", ["iter", "stop"], "more")]
    body.append(node("Concat", ["v", "c"], "v1", axis=0) if grow else combine(d, "v", "c", "v1"))
    body.append(node("Identity", ["v"], "w1") if d.chance(0.5) and not grow else node("Identity", ["w"], "w1"))
    body.append(node("Identity", ["w" if grow else "v"], "slice"))
    outs = [info("more", B), info("v1", d.t), info("w1", d.t)] + [info("slice", d.t)] * 1
    g = helper.make_graph(body, "body", ins, outs)
    m = None if d.chance(0.2) else np.array(d.int(0, 5), L)
    keep = None if m is not None and d.chance(0.3) else np.array(d.chance(0.85))
    return [m, keep, v, w], {"body": g}, 3, {"captured": {"c": c}, "atol": 1e-3}


@gen("Scan", t="V")
def scan(d):
    n, s = d.int(1, 4), d.shape(0, 2, empty=False)
    state, x = d.array(s, special=False, full=False), d.array((n,) + s, special=False, full=False)
    body = [combine(d, "state", "x", "next"), node("Identity", ["next"], "y")]
    g = helper.make_graph(body, "body", [info("state", d.t, list(s)), info("x", d.t, list(s))], [info("next", d.t, list(s)), info("y", d.t, list(s))])
    if d.v == 8:
        batch = d.int(1, 2)
        stack = lambda a: np.stack([a] * batch)
        lens = np.full(batch, n, L) if d.chance(0.3) else None
        return [lens, stack(state), stack(x)], {"body": g, "num_scan_inputs": 1} | d.maybe({"directions": [d.flag()]}), 2
    attrs = {"body": g, "num_scan_inputs": 1} | d.maybe({"scan_input_directions": [d.flag()], "scan_output_directions": [d.flag()]})
    if d.chance(0.3):
        at = d.int(0, len(s))
        x = np.moveaxis(x, 0, at)
        attrs["scan_input_axes"] = [at - (len(s) + 1 if d.v >= 11 and d.chance(0.5) else 0)]
    if d.chance(0.3):
        attrs["scan_output_axes"] = [d.int(0, len(s))]
    return [state, x], attrs, 2, {"atol": 1e-3}


def members(d, n, least=0, same=False):
    s = d.shape(least, 2)
    return [d.array(s if same else d.shape(least, 2), special=False) for _ in range(n)]


@gen("SequenceAt SequenceErase SequenceLength SequenceInsert", t="S")
def sequence(d):
    xs = members(d, d.int(1, 4))
    n, t = len(xs), d.type("I", I, L)
    if d.op == "SequenceLength":
        return [xs], {}, 1
    if d.op == "SequenceAt":
        return [xs, np.array(d.int(-n, n - 1), t)], {}, 1
    if d.op == "SequenceErase":
        return [xs] + ([np.array(d.int(-n, n - 1), t)] if d.chance(0.7) else []), {}, 1
    return [xs, d.array(d.shape(0, 2))] + ([np.array(d.int(-n, n), t)] if d.chance(0.7) else []), {}, 1


@gen("SequenceConstruct")
def construct(d):
    return members(d, d.int(1, 4)), {}, 1


@gen("SequenceEmpty", t="")
def empty_sequence(d):
    """Put something into it: ONNX Runtime's empty results have no element type."""
    t = d.pick(F, L, B)
    return [d.array(d.shape(0, 2), t)], {}, 1, {"nodes": [node("SequenceEmpty", [], "e", dtype=int(proto_type(t))), node("SequenceInsert", ["e", "i0"], "o0")]}


@gen("ConcatFromSequence", t="S")
def concat_sequence(d):
    s = d.shape(1, 3)
    new = d.flag()
    a = d.axis(len(s) + new)
    xs = []
    for _ in range(d.int(1, 3)):
        p = list(s)
        if not new:
            p[a] = d.int(0, 3)
        xs.append(d.array(tuple(p)))
    return [xs], {"axis": a} | ({"new_axis": 1} if new else {}), 1


@gen("SplitToSequence")
def split_sequence(d):
    s = list(d.shape(1, 3))
    a = d.axis(len(s))
    if d.chance(0.3):
        return [d.array(tuple(s))], {"axis": a} | d.maybe({"keepdims": d.flag()}), 1
    if d.chance(0.4):
        return [d.array(tuple(s)), np.array(d.int(1, 3), d.type("I"))], {"axis": a}, 1
    sizes = [d.int(0, 3) for _ in range(d.int(1, 3))]
    s[a] = sum(sizes)
    return [d.array(tuple(s)), np.array(sizes, d.type("I"))], {"axis": a}, 1


@gen("SequenceMap", t="S")
def sequence_map(d):
    xs = members(d, d.int(1, 3), same=True)
    g = helper.make_graph([combine(d, "a", "b", "r")], "body", [info("a", d.t), info("b", d.t)], [info("r", d.t)])
    second = d.array(xs[0].shape, special=False) if d.chance(0.5) else members(d, len(xs), same=True)
    if isinstance(second, list):
        second = [d.array(x.shape, special=False) for x in xs]
    return [xs, second], {"body": g}, 1


@gen("Optional OptionalGetElement OptionalHasElement", t="")
def optional(d):
    t = np.dtype(d.pick(F, L, B, S))
    x = d.array(d.shape(0, 3), t)
    get = [node("Optional", ["i0"], "t"), node("OptionalHasElement", ["t"], "o0"), node("OptionalGetElement", ["t"], "o1")]
    return [x], {}, 2, {"nodes": get}


@gen("Constant", t="")
def constants(d):
    forms = {"value_float": 1.5, "value_floats": [1.0, -2.0], "value_int": -3, "value_ints": [1, 2, 3], "value_string": "a", "value_strings": ["a", "", "b"]}
    if d.v < 12 or d.chance(0.5):
        from runtime import tensor
        t = np.dtype(d.pick(F, D, I, L, B, S, np.float16, np.uint8))
        return [d.array(())], {}, 1, {"nodes": [node("Constant", [], "o0", value=tensor(d.array(d.shape(0, 2), t), "v"))]}
    k = d.pick(*forms)
    return [d.array(())], {}, 1, {"nodes": [node("Constant", [], "o0", **{k: forms[k]})]}
