"""Records what onnxruntime computes for single operators.

    python golden.py            writes nn.json, ml.json, quant.json, microsoft.json and kernels.txt here

Needs numpy, onnx and onnxruntime (1.31). The Go tests compare the reference
kernels with the files and need none of them.
"""

import json
import os

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

MS, ML = "com.microsoft", "ai.onnx.ml"
DTYPES = {
    np.dtype("float32"): ("float32", TensorProto.FLOAT),
    np.dtype("float64"): ("float64", TensorProto.DOUBLE),
    np.dtype("float16"): ("float16", TensorProto.FLOAT16),
    np.dtype("int8"): ("int8", TensorProto.INT8),
    np.dtype("uint8"): ("uint8", TensorProto.UINT8),
    np.dtype("int16"): ("int16", TensorProto.INT16),
    np.dtype("uint16"): ("uint16", TensorProto.UINT16),
    np.dtype("int32"): ("int32", TensorProto.INT32),
    np.dtype("uint32"): ("uint32", TensorProto.UINT32),
    np.dtype("int64"): ("int64", TensorProto.INT64),
    np.dtype("bool"): ("bool", TensorProto.BOOL),
    np.dtype("object"): ("string", TensorProto.STRING),
}


def record(a):
    """An array as JSON: floats with the fewest digits that give them back."""
    if a is None:
        return None
    name, _ = DTYPES[a.dtype]
    flat = a.reshape(-1)
    if name == "string":
        data = [str(v) for v in flat]
    elif name.startswith("float"):
        data = [str(v) if not np.isfinite(v) else float(np.format_float_scientific(v)) for v in flat]
    else:
        data = [int(v) for v in flat]
    return {"dtype": name, "shape": list(a.shape), "data": data}


class Book:
    """The cases of one file."""

    def __init__(self, name):
        self.name, self.cases, self.failed = name, [], 0

    def add(self, name, op, inputs, outputs=1, domain="", opset=22, const=(), typed=None, unchecked=(), more=None, shared=None,
            rtol=1e-4, atol=1e-5, **attrs):
        """Runs one operator. outputs is a count, or a string of 1 and 0 for
        present and absent results; const lists operands given as initializers;
        typed gives element types of results that onnxruntime can not infer;
        unchecked results are computed but not recorded; more has attributes
        whose names are taken here; shared maps operands to the results that
        must lie in the same memory."""
        attrs = {**attrs, **(more or {})}
        present = outputs if isinstance(outputs, str) else "1" * outputs
        names = ["" if a is None else f"i{k}" for k, a in enumerate(inputs)]
        outs = [f"o{k}" if p == "1" else "" for k, p in enumerate(present)]
        node = helper.make_node(op, names, outs, domain=domain, **attrs)
        feeds, infos, inits = {}, [], []
        for k, a in enumerate(inputs):
            if a is None:
                continue
            if k in const:
                inits.append(onnx.numpy_helper.from_array(a, f"i{k}"))
                continue
            infos.append(helper.make_tensor_value_info(f"i{k}", DTYPES[a.dtype][1], a.shape))
            feeds[f"i{k}"] = a
        results = [onnx.ValueInfoProto(name=o) for o in outs if o]
        for k, dt in (typed or {}).items():
            results[k] = helper.make_tensor_value_info(results[k].name, DTYPES[np.dtype(dt)][1], None)
        graph = helper.make_graph([node], "g", infos, results, inits)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MS, 1), helper.make_opsetid(ML, 3)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        try:
            session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            got = iter(self.run(session, feeds, outs, shared or {}))
        except Exception as e:  # the case is left out, and said so
            self.failed += 1
            print(f"{self.name}/{name}: {str(e)[:300]}")
            return None
        values = [np.asarray(next(got)) if o else None for o in outs]
        recorded = [None if k in unchecked else v for k, v in enumerate(values)]
        self.cases.append({
            "name": name, "domain": domain, "op": op, "opset": opset, "rtol": rtol, "atol": atol,
            "attrs": attrs, "inputs": [record(a) for a in inputs], "outputs": [record(v) for v in recorded],
        })
        return values

    @staticmethod
    def run(session, feeds, outs, shared):
        """Runs a session; operands that results share memory with are copies."""
        if not shared:
            return session.run(None, feeds)
        binding = session.io_binding()
        values = {name: ort.OrtValue.ortvalue_from_numpy(a.copy()) for name, a in feeds.items()}
        for name, v in values.items():
            binding.bind_ortvalue_input(name, v)
        over = {f"o{to}": values[f"i{of}"] for of, to in shared.items()}
        for o in outs:
            if o in over:
                binding.bind_ortvalue_output(o, over[o])
            elif o:
                binding.bind_output(o)
        session.run_with_iobinding(binding)
        return [np.array(v.numpy()) for v in binding.get_outputs()]

    def write(self):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), self.name + ".json")
        with open(path, "w") as f:
            f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in self.cases) + "\n]\n")
        print(f"{self.name}: {len(self.cases)} cases, {self.failed} refused, {os.path.getsize(path)} bytes")


def write_kernels():
    """Lists the operators that onnxruntime has CPU kernels of."""
    from onnxruntime.capi import _pybind_state as state

    names = {f"{k.domain or 'ai.onnx'} {k.op_name}" for k in state.get_all_opkernel_def() if k.provider == "CPUExecutionProvider"}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels.txt"), "w") as f:
        f.write("\n".join(sorted(names)) + "\n")


def source(seed):
    """A function that makes arrays of normal random numbers of few digits."""
    rng = np.random.default_rng(seed)

    def normal(*shape, scale=1.0, dtype=np.float32):
        return (rng.standard_normal(shape) * scale).round(2).astype(dtype)

    normal.ints = lambda lo, hi, *shape, dtype=np.int64: rng.integers(lo, hi, shape).astype(dtype)
    return normal


if __name__ == "__main__":
    import microsoft
    import ml
    import nn
    import quant

    for module in (nn, ml, quant, microsoft):
        book = Book(module.__name__)
        module.cases(book)
        book.write()
    write_kernels()
