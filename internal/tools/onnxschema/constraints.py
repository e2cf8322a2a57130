"""Writes the types that all operators, in all their versions, allow, as the Python
packages onnx and onnxruntime declare them: the table of internal/typecheck.

    python3 internal/tools/onnxschema/constraints.py > internal/typecheck/constraints.txt

A line with = numbers a set of types; one of an operator is a version that changed its types, or its first:

    =SET TYPE ...
    DOMAIN.OPERATOR VERSION OPERAND:TYPE[*|~] ... > RESULT:TYPE[*|~] ... ; VARIABLE=SET ...

The default domain is empty. Tensors are named by their elements. The type of an operand or a result is a variable, the same for
all that have it, or #SET; after it, * is any number of them, each of this type, and ~ any number, each of a type of its own.
"""

import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as runtime


def short(t):
    return t[len("tensor("):-1] if t.startswith("tensor(") else t.replace(" ", "")


sets = {}


def number(types):
    return sets.setdefault(tuple(sorted(short(t) for t in types)), len(sets))


def parameter(p, variables):
    kind = p.type_str if hasattr(p, "type_str") else p.typeStr
    homogeneous = p.is_homogeneous if hasattr(p, "is_homogeneous") else p.isHomogeneous
    many = str(p.option).endswith("Variadic")
    if kind not in variables:
        kind = f"#{number([kind])}"
    return p.name.replace(" ", "_") + ":" + kind + ("*" if homogeneous else "~") * many


def types(s):
    variables = {c.type_param_str: number(c.allowed_type_strs) for c in s.type_constraints}
    return " ".join([*(parameter(p, variables) for p in s.inputs), ">", *(parameter(p, variables) for p in s.outputs), ";",
                     *(f"{v}={n}" for v, n in sorted(variables.items()))])


standard = onnx.defs.get_all_schemas_with_history()
known = {(s.domain, s.name) for s in standard}
# onnxruntime adds com.microsoft and the operators that the standard dropped
added = [s for s in runtime.get_all_operator_schema()
         if s.domain == "com.microsoft" or s.domain == "" and (s.domain, s.name) not in known]
lines, before = [], None
for s in sorted(standard + added, key=lambda s: (s.domain, s.name, s.since_version)):
    now = (s.domain, s.name, types(s))
    if now != before:
        lines.append(f"{s.domain}.{s.name} {s.since_version} {now[2]}")
    before = now
print(f"# onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")
for members, n in sets.items():
    print(f"={n}", *members)
print("\n".join(lines))
