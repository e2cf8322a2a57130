"""Schemas and ONNX Runtime: which operators there are in which versions, what the
answer to a model is, and test folders."""

import collections
import json

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, defs, helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as internals

from draw import S, dtype_of, proto_type

ort.set_default_logger_severity(4)
MICROSOFT, ML = "com.microsoft", "ai.onnx.ml"
NATIVE = {np.dtype(t) for t in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")} | {S}


class Schema:
    """One version of an operator: types maps type parameters to dtypes, inputs and
    outputs list the type parameters (or types) of operands and results."""

    def __init__(self, domain, name, since, until, types, inputs, outputs):
        self.domain, self.name, self.since, self.until = domain, name, since, until
        self.types, self.inputs, self.outputs = types, inputs, outputs


def schema_of(s, until):
    types = {c.type_param_str: list(dict.fromkeys(dtype_of(t) for t in c.allowed_type_strs)) for c in s.type_constraints}
    return Schema(s.domain, s.name, s.since_version, until, types, *([getattr(x, "type_str", None) or x.typeStr for x in xs] for xs in (s.inputs, s.outputs)))


def newest():
    """The newest version of the default operator set that ONNX Runtime loads."""
    best = 7
    for v in range(7, defs.onnx_opset_version() + 1):
        node = helper.make_node("Relu", ["x"], ["y"])
        x, y = (helper.make_tensor_value_info(n, 1, [1]) for n in "xy")
        m = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", v)], ir_version=10)
        try:
            session(m)
            best = v
        except Exception:
            continue
    return best


def schemas(top):
    """All versions of all operators that operator sets 7 to top have."""
    found = collections.defaultdict(list)
    for s in defs.get_all_schemas_with_history():
        if s.domain in ("", ML):
            found[s.domain, s.name].append(s)
    standard = {name for domain, name in found if domain == ""}
    for s in internals.get_all_operator_schema():
        if s.domain == MICROSOFT or s.domain == "" and s.name not in standard:
            found[s.domain, s.name].append(s)
    out = []
    for (domain, _), versions in sorted(found.items()):
        versions.sort(key=lambda s: s.since_version)
        last = {"": top, ML: 5, MICROSOFT: 1}[domain]
        for s, after in zip(versions, versions[1:] + [None]):
            until = min(last, after.since_version - 1) if after else last
            if getattr(s, "deprecated", False) or s.since_version > last:
                continue
            if domain != "" or until >= 7:
                out.append(schema_of(s, until))
    return out


def opsets(domain, opset):
    """What a model imports; other domains lie on a default operator set of today."""
    if domain == "":
        return [helper.make_opsetid("", opset)]
    return [helper.make_opsetid("", 21), helper.make_opsetid(domain, opset)]


def session(m, optimize=False):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])


def answer(m, feeds):
    """ONNX Runtime's results. Types that its Python interface does not know go in as
    initializers and come out through a Cast that keeps every value."""
    m = onnx.ModelProto.FromString(m.SerializeToString())
    for name, a in feeds.items():
        if isinstance(a, np.ndarray) and a.dtype not in NATIVE:
            m.graph.initializer.append(tensor(a, name))
            for k, i in enumerate(m.graph.input):
                if i.name == name:
                    del m.graph.input[k]
                    break
    feeds = {k: v for k, v in feeds.items() if not isinstance(v, np.ndarray) or v.dtype in NATIVE}
    s = session(m)
    back = {}
    for k, o in enumerate(s.get_outputs()):
        t = dtype_of(o.type)
        if t is not None and t not in NATIVE:
            wide = np.dtype("u1" if "uint" in t.name else "i1" if "int" in t.name else "f4")
            m.graph.node.append(helper.make_node("Cast", [o.name], [f"wide{k}"], to=proto_type(wide)))
            m.graph.output[k].CopyFrom(helper.make_empty_tensor_value_info(f"wide{k}"))
            back[k] = t
    if back:
        s = session(m)
    return [r.astype(back[k]) if k in back else r for k, r in enumerate(s.run(None, feeds))]


def tensor(a, name=""):
    if a.dtype == S:
        t = helper.make_tensor(name, TensorProto.STRING, a.shape, [str(x).encode() for x in a.reshape(-1)])
        return t
    return numpy_helper.from_array(a, name)


def value(v, name=""):
    """The protobuf of a tensor, a sequence or a map."""
    if isinstance(v, dict):
        return map_value(v, name)
    if isinstance(v, list):
        return sequence(v, name)
    return tensor(np.asarray(v), name)


def map_value(v, name=""):
    m = onnx.MapProto(name=name)
    keys = list(v)
    if keys and isinstance(keys[0], str):
        m.key_type = TensorProto.STRING
        m.string_keys.extend(k.encode() for k in keys)
    else:
        m.key_type = TensorProto.INT64
        m.keys.extend(keys)
    values = list(v.values())
    kind = object if values and isinstance(values[0], str) else np.int64 if values and isinstance(values[0], int) else np.float32
    m.values.CopyFrom(onnx.SequenceProto(elem_type=onnx.SequenceProto.TENSOR))
    m.values.tensor_values.extend(tensor(np.array(x, kind)) for x in values)
    return m


def sequence(v, name=""):
    s = onnx.SequenceProto(name=name)
    if v and isinstance(v[0], dict):
        s.elem_type = onnx.SequenceProto.MAP
        s.map_values.extend(map_value(x) for x in v)
        return s
    s.elem_type = onnx.SequenceProto.TENSOR
    s.tensor_values.extend(tensor(np.asarray(x)) for x in v)
    return s


def info(name, v, dims=None):
    """The declaration of an input or output of that value; dims are its dimensions,
    none known if not given."""
    if isinstance(v, np.ndarray):
        return helper.make_tensor_value_info(name, proto_type(v.dtype), [None] * v.ndim if dims is None else dims)
    if isinstance(v, list) and not (v and isinstance(v[0], dict)):
        kind = proto_type(v[0].dtype) if v else TensorProto.FLOAT
        return helper.make_tensor_sequence_value_info(name, kind, None)
    one = v[0] if isinstance(v, list) else v
    key, val = next(iter(one.items()))
    t = helper.make_map_type_proto(TensorProto.STRING if isinstance(key, str) else TensorProto.INT64,
                                   helper.make_tensor_type_proto(TensorProto.FLOAT if isinstance(val, float) else TensorProto.STRING if isinstance(val, str) else TensorProto.INT64, []))
    return helper.make_value_info(name, helper.make_sequence_type_proto(t) if isinstance(v, list) else t)


def save(folder, m, ins, results, about):
    """Writes a test folder; the model's outputs get the types they turned out to have."""
    for o, r in zip(m.graph.output, results):
        if not o.HasField("type"):
            o.CopyFrom(info(o.name, r if isinstance(r, (list, dict)) else np.asarray(r)))
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(m.SerializeToString())
    (folder / "case.json").write_text(json.dumps(about))
    (folder / "tolerance.json").write_text(json.dumps({k: about[k] for k in ("rtol", "atol")}))
    for kind, values in (("input", ins), ("output", results)):
        for i, v in enumerate(values):
            (data / f"{kind}_{i}.pb").write_bytes(value(v).SerializeToString())
