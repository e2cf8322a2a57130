"""Checks ONNX files and runs them in ONNX Runtime, for TestONNXRuntime.

Reads a list of {"model": path, "inputs": {name: array}} in JSON and prints the
outputs, a list of {name: array} in JSON. An array is {"type", "shape", "data"},
data being the elements' bytes in base64.
"""

import base64
import json
import sys

import numpy
import onnx
import onnxruntime


def to_numpy(a):
    data = numpy.frombuffer(base64.b64decode(a["data"]), dtype=a["type"])
    return data.reshape(a["shape"])


def to_json(a):
    data = base64.b64encode(numpy.ascontiguousarray(a).tobytes()).decode()
    return {"type": a.dtype.name, "shape": list(a.shape), "data": data}


results = []
for case in json.load(sys.stdin):
    onnx.checker.check_model(case["model"], full_check=True)
    session = onnxruntime.InferenceSession(case["model"], providers=["CPUExecutionProvider"])
    inputs = {name: to_numpy(a) for name, a in case["inputs"].items()}
    names = [o.name for o in session.get_outputs()]
    outputs = session.run(names, inputs)
    results.append({name: to_json(a) for name, a in zip(names, outputs)})
json.dump(results, sys.stdout)
