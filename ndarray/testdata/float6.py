"""Records what the onnx package makes of six-bit floats: float6.json.

    python float6.py            needs onnx 1.23 with its ml_dtypes

values   every bit pattern, read
inputs   float32 bit patterns, and the codes they round to
packed   the raw data of all 64 patterns and of the first five
"""

import json
import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(6)
out = {}
for name in ("FLOAT6E2M3", "FLOAT6E3M2"):
    number = getattr(TensorProto, name)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    codes = np.arange(64, dtype=np.uint8).view(dtype)
    values = codes.astype(np.float32)
    # every value, every middle of two neighbours, their neighbours, and some more
    line = np.sort(values)
    middle = (line[1:] + line[:-1]) / 2
    inputs = np.concatenate([values, middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf)),
                             np.array([0, -0.0, np.inf, -np.inf, 1e30, -1e30, 1e-30, -1e-30], np.float32),
                             (rng.standard_normal(50) * 8).astype(np.float32)]).astype(np.float32)

    def raw(a):
        return list(numpy_helper.from_array(a).raw_data)

    out[name.lower()] = {
        "values": [float(v) for v in values],
        "inputs": [int(v) for v in inputs.view(np.uint32)],
        "codes": [int(v) for v in inputs.astype(dtype).view(np.uint8)],
        "packed": raw(codes), "packed_five": raw(codes[:5]),
    }
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "float6.json")
with open(path, "w") as f:
    json.dump(out, f, separators=(",", ":"))
    f.write("\n")
