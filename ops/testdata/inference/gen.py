#!/usr/bin/env python3
"""Writes known.json: what ONNX's own shape inference knows of the values of the
recorded ONNX tests when declared shapes of results are taken away.

    python gen.py FOLDER-OF-ARCHIVES > known.json        (needs: onnx)

The file maps archive/case to value names and dimensions; "?" is a dimension that
is not a number. Values whose rank ONNX does not know are left out, and so are the
bodies of control flow and, for size, the inner values of "_expanded" cases. TestInferenceKnowsWhatONNXKnows reads it.
"""
import json
import os
import sys
import tarfile

import onnx


def strip(graph):
    """Takes away every shape that inference could copy instead of working out,
    in bodies too."""
    del graph.value_info[:]
    for out in graph.output:
        if out.type.HasField("tensor_type"):
            out.type.tensor_type.ClearField("shape")
    for node in graph.node:
        for attr in node.attribute:
            if attr.HasField("g"):
                strip(attr.g)


def dims(value):
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        return None
    return [str(d.dim_value) if d.HasField("dim_value") else "?" for d in value.type.tensor_type.shape.dim]


def known(model, results_only):
    """The values of the main graph whose rank is known, and their dimensions."""
    strip(model.graph)
    try:
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as err:  # a model ONNX's inference refuses says nothing
        print(err, file=sys.stderr)
        return {}
    made = {name for node in model.graph.node for name in node.output}
    out = {}
    for value in ([] if results_only else list(model.graph.value_info)) + list(model.graph.output):
        shape = dims(value)
        if shape is not None and value.name in made:
            out[value.name] = ",".join(shape)
    return out


def models(path):
    with tarfile.open(path) as tar:
        for member in tar:
            if member.isfile() and member.name.endswith(".onnx"):
                yield member.name, tar.extractfile(member).read()


def main(folder):
    table = {}
    for archive in sorted(os.listdir(folder)):
        if not archive.endswith(".tar.gz"):
            continue
        for name, data in models(os.path.join(folder, archive)):
            base = os.path.basename(name)
            case = base[:-5] if base != "model.onnx" else os.path.basename(os.path.dirname(name))
            table[archive[:-7] + "/" + case] = known(onnx.load_model_from_string(data), "_expanded" in case)
    lines = [f"{json.dumps(k)}: {json.dumps(table[k], separators=(',', ':'))}" for k in sorted(table) if table[k]]
    print("{\n" + ",\n".join(lines) + "\n}")


main(sys.argv[1])
