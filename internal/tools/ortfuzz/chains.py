"""Small graphs of the patterns that rewriting looks for, written out as exporters do:
convolution with normalization and activation, products with bias, normalizations and
activations by their formulas, attention, quantized chains, shape arithmetic.

A graph grows block by block. An image is N,C,H,W, tokens are N,S,C. Weights are small,
so that values stay near one.
"""

import numpy as np
from onnx import TensorProto, helper

from draw import F, I8, L, U8
from runtime import tensor


class Net:
    """A graph under construction; value names go with shapes in self.shape."""

    def __init__(self, d):
        self.d, self.nodes, self.inits, self.inputs, self.shape, self.count = d, [], [], {}, {}, 0

    def name(self, shape=None):
        self.count += 1
        n = f"v{self.count}"
        self.shape[n] = shape
        return n

    def const(self, a):
        n = self.name(np.shape(a))
        self.inits.append(tensor(np.asarray(a), n))
        return n

    def floats(self, *shape, scale=1.0):
        return self.const(self.d.near(shape, F, scale))

    def scalar(self, v):
        return self.const(np.array(v, F))

    def input(self, *shape):
        n = f"x{len(self.inputs)}"
        self.inputs[n] = self.d.near(shape, F)
        self.shape[n] = shape
        return n

    def add(self, op, ins, shape=None, outs=1, **attrs):
        """Appends a node; its first result has the given shape, by default that of the
        first operand."""
        names = [self.name(self.shape[ins[0]] if shape is None else shape) for _ in range(outs)]
        self.nodes.append(helper.make_node(op, ins, names, **attrs))
        return names[0] if outs == 1 else names


# ---- activations, by operator and by formula ----


def gelu(n, x):
    e = n.add("Erf", [n.add("Div", [x, n.scalar(2 ** 0.5)])])
    s = n.add("Add", [e, n.scalar(1)])
    if n.d.chance(0.5):
        return n.add("Mul", [n.add("Mul", [x, s]), n.scalar(0.5)])
    return n.add("Mul", [x, n.add("Mul", [s, n.scalar(0.5)])])


def tanh_gelu(n, x):
    cube = n.add("Pow", [x, n.scalar(3)])
    inner = n.add("Add", [x, n.add("Mul", [cube, n.scalar(0.044715)])])
    t = n.add("Tanh", [n.add("Mul", [inner, n.scalar(0.7978845608)])])
    return n.add("Mul", [n.add("Mul", [x, n.scalar(0.5)]), n.add("Add", [t, n.scalar(1)])])


def activation(n, x):
    d = n.d
    kind = d.pick("relu", "relu6", "sigmoid", "silu", "hardswish", "hardformula", "gelu", "tanhgelu", "leaky", "elu", "mish", "softplus", "quick", "tanh", "none", "prelu")
    if kind == "relu6":
        return n.add("Clip", [x, n.scalar(0), n.scalar(6)])
    if kind == "silu":
        return n.add("Mul", d.pick([x, n.add("Sigmoid", [x])], [n.add("Sigmoid", [x]), x]))
    if kind == "hardformula":
        return n.add("Div", [n.add("Mul", [x, n.add("Clip", [n.add("Add", [x, n.scalar(3)]), n.scalar(0), n.scalar(6)])]), n.scalar(6)])
    if kind == "mish":
        return n.add("Mul", [x, n.add("Tanh", [n.add("Softplus", [x])])])
    if kind == "quick":
        return n.add("Mul", [x, n.add("Sigmoid", [n.add("Mul", [x, n.scalar(1.702)])])])
    if kind == "prelu":
        c = n.shape[x][1]
        return n.add("PRelu", [x, n.floats(c, *(1,) * (len(n.shape[x]) - 2))])
    if kind in ("gelu", "tanhgelu"):
        return (gelu if kind == "gelu" else tanh_gelu)(n, x)
    op = {"relu": "Relu", "sigmoid": "Sigmoid", "hardswish": "HardSwish", "leaky": "LeakyRelu", "elu": "Elu", "softplus": "Softplus", "tanh": "Tanh"}.get(kind)
    return n.add(op, [x]) if op else x


# ---- images ----


def conv(n, x, out=None, group=None, k=None, stride=1):
    d, (b, c, h, w) = n.d, n.shape[x]
    out, k = out or int(d.pick(c, 3, 8, 16)), k or d.pick(1, 3)
    g = group or 1
    ins = [x, n.floats(out, c // g, k, k, scale=(c // g * k * k) ** -0.5)] + ([n.floats(out, scale=0.3)] if d.chance(0.6) else [])
    p = k // 2
    size = [(s + 2 * p - k) // stride + 1 for s in (h, w)]
    return n.add("Conv", ins, (b, out, *size), group=g, pads=[p] * 4, strides=[stride] * 2)


def batch_norm(n, x):
    c = n.shape[x][1]
    return n.add("BatchNormalization", [x, n.floats(c), n.floats(c), n.floats(c), n.const(n.d.positive((c,), F, 0.5, 2))])


def conv_block(n, x):
    c = n.shape[x][1]
    y = conv(n, x, stride=n.d.pick(1, 1, 2)) if n.d.chance(0.7) else conv(n, x, out=c, group=c)
    if n.d.chance(0.6):
        y = batch_norm(n, y)
    return activation(n, y)


def residual(n, x):
    y = conv(n, activation(n, conv(n, x)), out=n.shape[x][1])
    if n.d.chance(0.5):
        y = batch_norm(n, y)
    return activation(n, n.add("Add", n.d.pick([x, y], [y, x])))


def squeeze_excite(n, x):
    b, c, _, _ = n.shape[x]
    y = n.add("GlobalAveragePool", [x], (b, c, 1, 1)) if n.d.chance(0.5) else n.add("ReduceMean", [x], (b, c, 1, 1), axes=[2, 3]) if n.d.opset < 18 else n.add("ReduceMean", [x, n.const(n.d.ints(2, 3))], (b, c, 1, 1))
    y = n.add("Relu", [conv(n, y, k=1)])
    y = n.add(n.d.pick("Sigmoid", "HardSigmoid"), [conv(n, y, out=c, k=1)])
    return n.add("Mul", n.d.pick([x, y], [y, x]), n.shape[x])


def branches(n, x):
    b, _, h, w = n.shape[x]
    ys = [conv(n, x, k=1), n.add("MaxPool", [x], kernel_shape=[3, 3], pads=[1, 1, 1, 1]), conv(n, x, k=3)][:n.d.int(2, 3)]
    return n.add("Concat", ys, (b, sum(n.shape[y][1] for y in ys), h, w), axis=n.d.pick(1, -3))


def pool(n, x):
    b, c, h, w = n.shape[x]
    if min(h, w) < 2:
        return x
    op = n.d.pick("MaxPool", "AveragePool")
    return n.add(op, [x], (b, c, h // 2, w // 2), kernel_shape=[2, 2], strides=[2, 2])


def upsample(n, x):
    b, c, h, w = n.shape[x]
    if h * w > 200:
        return x
    mode = n.d.pick(("nearest", "asymmetric", "floor"), ("linear", "half_pixel", "round_prefer_floor"))
    return n.add("Resize", [x, "", n.const(np.array([1, 1, 2, 2], F))], (b, c, 2 * h, 2 * w), mode=mode[0], coordinate_transformation_mode=mode[1], nearest_mode=mode[2])


def padded_conv(n, x):
    b, c, h, w = n.shape[x]
    p = n.add("Pad", [x, n.const(n.d.ints(0, 0, 1, 1, 0, 0, 1, 1))], (b, c, h + 2, w + 2), mode=n.d.pick("constant", "reflect") if min(h, w) > 1 else "constant")
    return n.add("Conv", [p, n.floats(4, c, 3, 3, scale=(9 * c) ** -0.5)], (b, 4, h, w))


def affine(n, x):
    c = n.shape[x][1]
    for _ in range(n.d.int(1, 3)):
        op = n.d.pick("Mul", "Add", "Sub", "Div")
        k = n.const(n.d.positive(n.d.pick((c, 1, 1), (1, c, 1, 1), ()), F, 0.5, 2))
        x = n.add(op, [x, k] if op in ("Sub", "Div") or n.d.chance(0.7) else [k, x], n.shape[x])
    return x


def shuffle(n, x):
    b, c, h, w = n.shape[x]
    if c % 2:
        return x
    y = n.add("Reshape", [x, n.const(n.d.ints(b, 2, c // 2, h, w))], (b, 2, c // 2, h, w))
    y = n.add("Transpose", [y], (b, c // 2, 2, h, w), perm=[0, 2, 1, 3, 4])
    return n.add("Reshape", [y, n.const(n.d.ints(b, -1, h, w))], (b, c, h, w))


def halves(n, x):
    b, c, h, w = n.shape[x]
    if c % 2:
        return x
    a, z = n.add("Split", [x, n.const(n.d.ints(c // 2, c // 2))], (b, c // 2, h, w), outs=2, axis=1)
    a = activation(n, a)
    return n.add("Mul", [a, n.add("Sigmoid", [z])]) if n.d.chance(0.5) else n.add("Concat", [a, z], (b, c, h, w), axis=1)


def transposed(n, x):
    b, c, h, w = n.shape[x]
    if h * w > 200:
        return x
    return activation(n, n.add("ConvTranspose", [x, n.floats(c, 4, 2, 2, scale=c ** -0.5)], (b, 4, 2 * h, 2 * w), strides=[2, 2]))


# ---- tokens ----


def linear(n, x, out=None):
    *lead, c = n.shape[x]
    out = out or int(n.d.pick(c, 8, 24))
    w, b = n.floats(c, out, scale=c ** -0.5), n.floats(out, scale=0.3)
    y = n.add("MatMul", [x, w], (*lead, out))
    return n.add("Add", n.d.pick([y, b], [b, y]), n.shape[y]) if n.d.chance(0.8) else y


def reduce_mean(n, x, axes=(-1,)):
    shape = list(n.shape[x])
    for a in axes:
        shape[a] = 1
    if n.d.opset < 18:
        return n.add("ReduceMean", [x], tuple(shape), axes=list(axes))
    return n.add("ReduceMean", [x, n.const(n.d.ints(*axes))], tuple(shape))


def layer_norm(n, x):
    c = n.shape[x][-1]
    if n.d.opset >= 17 and n.d.chance(0.3):
        return n.add("LayerNormalization", [x, n.floats(c), n.floats(c)], epsilon=1e-5)
    y = n.add("Sub", [x, reduce_mean(n, x)], n.shape[x])
    square = n.add("Pow", [y, n.scalar(2)]) if n.d.chance(0.5) else n.add("Mul", [y, y])
    root = n.add("Sqrt", [n.add("Add", [reduce_mean(n, square), n.scalar(1e-5)])])
    y = n.add("Div", [y, root], n.shape[x]) if n.d.chance(0.6) else n.add("Mul", [y, n.add("Reciprocal", [root])], n.shape[x])
    return n.add("Add", [n.add("Mul", [y, n.floats(c)], n.shape[x]), n.floats(c)], n.shape[x])


def rms_norm(n, x):
    square = n.add("Pow", [x, n.scalar(2)])
    root = n.add("Sqrt", [n.add("Add", [reduce_mean(n, square), n.scalar(1e-5)])])
    return n.add("Mul", [n.add("Div", [x, root], n.shape[x]), n.floats(n.shape[x][-1])], n.shape[x])


def heads(n, x, h, perm):
    b, s, c = n.shape[x]
    y = n.add("Reshape", [x, n.const(n.d.ints(b, n.d.pick(s, -1), h, c // h))], (b, s, h, c // h))
    return n.add("Transpose", [y], tuple((b, s, h, c // h)[p] for p in perm), perm=perm)


def attention(n, x):
    b, s, c = n.shape[x]
    h = 2 if c % 2 == 0 else 1
    q, k, v = (linear(n, x, c) for _ in range(3))
    q, k, v = heads(n, q, h, [0, 2, 1, 3]), heads(n, k, h, [0, 2, 3, 1]), heads(n, v, h, [0, 2, 1, 3])
    root = float((c // h) ** 0.5)
    if n.d.chance(0.3):
        q = n.add("Div", [q, n.scalar(root)])
    scores = n.add("MatMul", [q, k], (b, h, s, s))
    scores = n.add("Div", [scores, n.scalar(root)]) if n.d.chance(0.5) else n.add("Mul", [scores, n.scalar(1 / root)])
    if n.d.chance(0.5):
        scores = n.add("Add", [scores, n.const(np.triu(np.full((s, s), -1e4, F), 1).reshape(n.d.pick((s, s), (1, 1, s, s))))])
    y = n.add("MatMul", [n.add("Softmax", [scores], axis=-1), v], (b, h, s, c // h))
    y = n.add("Transpose", [y], (b, s, h, c // h), perm=[0, 2, 1, 3])
    return linear(n, n.add("Reshape", [y, n.const(n.d.ints(b, s, c))], (b, s, c)), c)


def token_residual(n, x):
    y = n.d.pick(attention, feed_forward)(n, x)
    return layer_norm(n, n.add("Add", n.d.pick([x, y], [y, x])))


def feed_forward(n, x):
    return linear(n, activation_plain(n, linear(n, x)), n.shape[x][-1])


def activation_plain(n, x):
    return n.d.pick(gelu, tanh_gelu, lambda n, x: n.add("Relu", [x]), lambda n, x: n.add("Mul", [x, n.add("Sigmoid", [x])]))(n, x)


def gated(n, x):
    a, b = linear(n, x, 8), linear(n, x, 8)
    return n.add("Mul", [n.add("Mul", [a, n.add("Sigmoid", [a])]), b])


def rotate(n, x):
    b, s, c = n.shape[x]
    if c % 2:
        return x
    cut = lambda lo, hi: n.add("Slice", [x, n.const(n.d.ints(lo)), n.const(n.d.ints(hi)), n.const(n.d.ints(-1))], (b, s, c // 2))
    lo, hi = cut(0, c // 2), cut(c // 2, 2**62)
    turned = n.add("Concat", [n.add("Neg", [hi]), lo], (b, s, c), axis=-1)
    return n.add("Add", [n.add("Mul", [x, n.floats(s, c)]), n.add("Mul", [turned, n.floats(s, c)])])


def there_and_back(n, x):
    b, s, c = n.shape[x]
    y = n.add("Transpose", [x], (b, c, s), perm=[0, 2, 1])
    y = activation(n, n.add("Mul", [y, n.scalar(0.7)])) if n.d.chance(0.6) else y
    return n.add("Transpose", [y], (b, s, c), perm=[0, 2, 1])


def reshaped(n, x):
    """Flattened and back by shape arithmetic on the input's own shape."""
    b, s, c = n.shape[x]
    shape = n.add("Shape", [x], (3,))
    at = lambda i: n.add("Unsqueeze", [n.add("Gather", [shape, n.const(np.array(i, L))], (), axis=0), n.const(n.d.ints(0))], (1,))
    flat = n.add("Concat", [n.const(n.d.ints(-1)), at(2)], (2,), axis=0)
    y = n.add("Relu", [n.add("Reshape", [x, flat], (b * s, c))])
    return n.add("Reshape", [y, n.add("Concat", [at(0), at(1), n.const(n.d.ints(-1))], (3,), axis=0)], (b, s, c))


def softmaxed(n, x):
    return n.add(n.d.pick("Softmax", "LogSoftmax"), [x], axis=n.d.pick(-1, 1, 2))


IMAGE = [conv_block, conv_block, residual, squeeze_excite, branches, pool, upsample, padded_conv, affine, shuffle, halves, transposed, batch_norm, activation]
TOKENS = [linear, layer_norm, rms_norm, attention, token_residual, feed_forward, gated, rotate, there_and_back, reshaped, softmaxed, activation_plain]


def qdq(n, x, scale=0.05, zero=None, kind=U8):
    """Quantizes and dequantizes again."""
    z = n.const(np.array(n.d.int(100, 150) if kind == U8 else n.d.int(-20, 20), kind) if zero is None else zero)
    s = n.scalar(scale)
    return n.add("DequantizeLinear", [n.add("QuantizeLinear", [x, s, z]), s, z])


def stored(n, *shape, axis=None):
    """Quantized weights."""
    w = n.const(np.asarray(n.d.r.integers(-127, 128, shape), I8))
    if axis is None:
        return n.add("DequantizeLinear", [w, n.scalar(0.004), n.const(np.array(0, I8))], shape)
    k = shape[axis]
    return n.add("DequantizeLinear", [w, n.const(n.d.positive((k,), F, 0.002, 0.006)), n.const(np.zeros(k, I8))], shape, axis=axis)


def quantized(n):
    """A quantized chain, as quantizers write them; one step of the result is the tolerance."""
    d, kind = n.d, n.d.pick(U8, I8)
    if d.chance(0.5):
        x = n.input(1, 3, 6, 6)
        for _ in range(d.int(1, 3)):
            b, c, h, w = n.shape[x]
            x = qdq(n, x, kind=kind)
            if d.chance(0.3):
                x = n.add("Add", [x, qdq(n, x, kind=kind)])
            else:
                x = n.add("Conv", [x, stored(n, 4, c, 3, 3, axis=d.pick(None, 0)), n.floats(4)], (b, 4, h, w), pads=[1, 1, 1, 1])
            x = n.add("Relu", [x]) if d.chance(0.5) else x
        return qdq(n, x, 0.1, kind=kind)
    x = n.input(2, 3, 8)
    for _ in range(d.int(1, 3)):
        x = n.add("MatMul", [qdq(n, x, kind=kind), stored(n, 8, 8, axis=d.pick(None, 1))])
        x = n.add("Add", [x, n.floats(8)])
    return qdq(n, x, 0.1, kind=kind)


def chain(d):
    """A model and its inputs, and how near the results must be."""
    n = Net(d)
    kind = d.pick("image", "image", "tokens", "tokens", "quantized")
    more = {"rtol": 1e-3, "atol": 1e-4}
    if kind == "quantized":
        outs, more = [quantized(n)], {"rtol": 0, "atol": 0.101}
    else:
        x = n.input(*((d.int(1, 2), d.int(1, 4), d.int(3, 9), d.int(3, 9)) if kind == "image" else (d.int(1, 2), d.int(1, 5), int(d.pick(4, 6, 8, 16)))))
        outs = []
        for _ in range(d.int(1, 4)):
            x = d.pick(*(IMAGE if kind == "image" else TOKENS))(n, x)
            if d.chance(0.15) and x not in n.inputs:
                outs.append(x)  # a value that a fusion must leave
        if x in n.inputs:
            x = n.add("Relu", [x])
        outs = list(dict.fromkeys(outs + [x]))
    inputs = [helper.make_tensor_value_info(k, TensorProto.FLOAT, list(a.shape) if d.chance(0.6) else [f"{k}_{i}" for i in range(a.ndim)]) for k, a in n.inputs.items()]
    graph = helper.make_graph(n.nodes, kind, inputs, [helper.make_empty_tensor_value_info(o) for o in outs], n.inits)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", d.opset)], ir_version=10), n.inputs, more, kind
