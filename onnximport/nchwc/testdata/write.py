"""Writes small models and what ONNX Runtime makes of them at its highest level.

    python write.py       writes NAME.onnx and NAME.ort.onnx here

Needs numpy, onnx and onnxruntime (1.31), and a machine with AVX-512: there blocks
have 16 channels. The Go tests read the files and need none of it.
"""

import os

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

here = os.path.dirname(os.path.abspath(__file__))


class Net:
    """A chain of nodes with weights of few digits."""

    def __init__(self, name, channels, side=9, last=False):
        self.name, self.rng, self.nodes, self.weights = name, np.random.default_rng(len(name)), [], []
        shape = [1, side, side, channels] if last else [1, channels, side, side]
        self.input = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)

    def add(self, op, inputs, **attrs):
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], name=f"n{len(self.nodes)}", **attrs))
        return out

    def weight(self, *shape):
        name = f"w{len(self.weights)}"
        v = (self.rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)).round(2).astype(np.float32)
        self.weights.append(numpy_helper.from_array(v, name))
        return name

    def constant(self, v):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(v), name))
        return name

    def conv(self, x, i, o, k=3, group=1, **attrs):
        return self.add("Conv", [x, self.weight(o, i // group, k, k), self.weight(o)], group=group, pads=[k // 2] * 4, **attrs)

    def write(self, out):
        graph = helper.make_graph(self.nodes, self.name, [self.input], [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)], self.weights)
        plain = os.path.join(here, self.name + ".onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), plain)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.optimized_model_filepath = os.path.join(here, self.name + ".ort.onnx")
        options.log_severity_level = 3
        ort.InferenceSession(plain, options, providers=["CPUExecutionProvider"])
        ops = [f"{n.domain}.{n.op_type}" for n in onnx.load(options.optimized_model_filepath).graph.node]
        print(self.name, " ".join(ops))


def padded():
    """A last convolution whose channels are no multiple of a block; sums, activations, pools."""
    n = Net("padded", 3)
    a = n.add("Relu", [n.conv("x", 3, 16)])
    b = n.add("MaxPool", [a], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    c = n.conv(b, 16, 16)
    d = n.add("Relu", [n.add("Add", [c, b])])
    e = n.add("Clip", [n.conv(d, 16, 16, group=16), n.constant(np.float32(-0.25)), n.constant(np.float32(0.5))])
    f = n.add("AveragePool", [e], kernel_shape=[2, 2])
    n.write(n.add("GlobalAveragePool", [n.add("Sigmoid", [n.conv(f, 16, 5, 1)])]))


def resized():
    """Upsample, GlobalMaxPool, several readers, a concatenation."""
    n = Net("resized", 4)
    a = n.conv("x", 4, 16)
    up = n.add("Resize", [a, "", n.constant(np.array([1, 1, 2, 2], np.float32))], mode="nearest", coordinate_transformation_mode="asymmetric",
               nearest_mode="floor")
    lin = n.add("Resize", [a, "", n.constant(np.array([1, 1, 2, 2], np.float32))], mode="linear", coordinate_transformation_mode="half_pixel")
    b = n.add("Concat", [n.conv(up, 16, 16, 1), n.conv(lin, 16, 24, 1)], axis=1)
    n.write(n.add("GlobalMaxPool", [n.conv(b, 40, 12, 3)]))


def last():
    """Channels last outside, groups of whole blocks inside."""
    n = Net("last", 32, 5, last=True)
    a = n.add("Transpose", ["x"], perm=[0, 3, 1, 2])
    b = n.add("HardSigmoid", [n.conv(a, 32, 32, group=2)], alpha=0.3, beta=0.4)
    n.write(n.add("Transpose", [n.conv(b, 32, 18, 1)], perm=[0, 2, 3, 1]))


def silent():
    """Nothing that shows the block."""
    n = Net("silent", 3)
    n.write(n.conv(n.add("Relu", [n.conv("x", 3, 32)]), 32, 32))


def pools():
    """No filters: the block does not matter."""
    n = Net("pools", 16)
    n.write(n.add("AveragePool", [n.add("MaxPool", ["x"], kernel_shape=[3, 3], strides=[2, 2])], kernel_shape=[2, 2], pads=[1, 1, 0, 0]))


for write in (padded, resized, last, silent, pools):
    write()
