"""Writes the attributes of all operators, in all their versions, as the Python
packages onnx and onnxruntime declare them: the oracle of TestAttributeOracle.

    python3 internal/tools/onnxschema/attributes.py > ops/testdata/onnx_attributes.txt

One line is a version of an operator that changed its attributes, or its first:

    DOMAIN.OPERATOR VERSION NAME:kind[!][=default] ...

The default domain is empty; ! marks required attributes; strings and lists are JSON.
"""

import json

import numpy
import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as runtime


def text(value):
    if isinstance(value, bytes):
        return json.dumps(value.decode())
    if isinstance(value, float):
        return repr(float(str(numpy.float32(value)))).removesuffix(".0")
    if isinstance(value, int):
        return str(value)
    return "[" + ",".join(text(v) for v in value) + "]"


def attribute(name, a):
    default = a.default_value if hasattr(a, "default_value") else a._default_value
    if isinstance(default, bytes):
        default = onnx.AttributeProto.FromString(default)
    kind = str(a.type).split(".")[-1].lower()
    kind = {"???": "type_proto"}.get(kind, kind)  # onnxruntime has no name for it
    out = f"{name}:{kind}" + "!" * a.required
    if default.type:
        out += "=" + text(onnx.helper.get_attribute_value(default))
    return out


def attributes(s):
    return [attribute(n, a) for n, a in sorted(s.attributes.items())]


standard = onnx.defs.get_all_schemas_with_history()
known = {(s.domain, s.name) for s in standard}
# onnxruntime adds com.microsoft and the operators that the standard dropped
added = [s for s in runtime.get_all_operator_schema()
         if s.domain == "com.microsoft" or s.domain == "" and (s.domain, s.name) not in known]
print(f"# onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")
before = None
for s in sorted(standard + added, key=lambda s: (s.domain, s.name, s.since_version)):
    now = (s.domain, s.name, attributes(s))
    if now != before:
        print(f"{s.domain}.{s.name}", s.since_version, *now[2])
    before = now
