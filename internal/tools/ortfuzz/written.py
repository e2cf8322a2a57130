#!/usr/bin/env python3
"""Checks the files that `berth optimize` writes: onnx.checker with full checks, ONNX Runtime, bytes.

    python written.py --berth COMMAND MODEL.onnx ...

Each model is optimized for the inputs recorded beside it (test_data_set_0). Without any, or with --sizes, it is optimized with its shapes
open, and with its inputs bound to up to two of the sizes for which optimize compared outputs. A written file passes if

    a second run, with two threads, writes the same bytes,
    onnx.checker.check_model(full_check=True) accepts it, or refuses the original, too,
    ONNX Runtime loads it and gives the outputs that it gives for the original.

Models that ONNX Runtime or the checker can not load or run as they are show nothing and are counted as such. The exit status
is 1 if a file fails.
"""

import argparse
import collections
import filecmp
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

ort.set_default_logger_severity(4)
TYPES = {"float": "f4", "double": "f8", "float16": "f2", "bool": "?", **{f"{u}int{n}": f"{u[:1] or 'i'}{n // 8}" for u in ("", "u") for n in (8, 16, 32, 64)}}
RTOL, ATOL = 1e-3, 1e-4


class Nothing(Exception):
    """The original itself does not load or run there."""


def session(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def recorded(model):
    """The inputs beside a model by name; None without any, or if some are no tensors."""
    folder = model.parent / "test_data_set_0"
    names = [i.name for i in onnx.load(model, load_external_data=False).graph.input]
    feed = {}
    for path in folder.glob("input_*.pb"):
        tensor = onnx.TensorProto()
        try:
            tensor.ParseFromString(path.read_bytes())
            feed[names[int(path.stem.split("_")[1])]] = numpy_helper.to_array(tensor)
        except Exception as e:
            raise Nothing(f"inputs: {e}") from e
    return feed or None


def drawn(inputs, shapes):
    rng = np.random.default_rng(0)
    feed = {}
    for i in inputs:
        dtype = np.dtype(TYPES[i.type[len("tensor("):-1]])
        shape = shapes[i.name]
        feed[i.name] = (rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 2, shape)).astype(dtype)
    return feed


def optimize(berth, model, out, *flags):
    p = subprocess.run([*berth, "optimize", str(model), "-o", str(out), "--no-compare", "--json", *flags], capture_output=True, text=True)
    if p.returncode:
        raise Nothing(f"optimize: {p.stderr.strip().splitlines()[-1]}")
    return json.loads(p.stdout)


def different(want, got, name):
    if not isinstance(want, np.ndarray):
        return None
    if want.dtype != got.dtype or want.shape != got.shape:
        return f"{name}: {got.dtype}{got.shape}, want {want.dtype}{want.shape}"
    same = np.allclose(got, want, RTOL, ATOL, equal_nan=True) if want.dtype.kind in "fc" else (got == want).all()
    return None if same else f"{name}: other values"


def accepted(path):
    try:
        onnx.checker.check_model(str(path), full_check=True)
        return None
    except Exception as e:
        return str(e).splitlines()[0]


def check(original, written, feeds):
    """What is wrong with a written file; None if nothing is."""
    if (why := accepted(written)) and not accepted(original):
        return f"checker: {why}"
    try:
        first = session(original)
    except Exception as e:
        raise Nothing(f"ONNX Runtime: {e}") from e
    try:
        second = session(written)
    except Exception as e:
        return f"ONNX Runtime refuses it: {e}"
    names = [o.name for o in first.get_outputs()]
    for feed in feeds(first.get_inputs()):
        try:
            want = first.run(names, {i.name: feed[i.name] for i in first.get_inputs() if i.name in feed})
        except Exception as e:
            raise Nothing(f"ONNX Runtime: {e}") from e
        try:
            got = second.run(names, {i.name: feed[i.name] for i in second.get_inputs() if i.name in feed})
        except Exception as e:
            return f"it does not run: {e}"
        for w, g, name in zip(want, got, names):
            if why := different(w, g, name):
                return why
    return None


def cases(berth, model, folder, sizes_only):
    """Flags, and what makes inputs for ONNX Runtime's session."""
    feed = None if sizes_only else recorded(model)
    if feed:
        yield ["--data", str(model.parent / "test_data_set_0")], lambda _: [feed]
        return
    report = optimize(berth, model, folder / "sizes.onnx")
    sizes = report.get("tried") or [report["shapes"]]
    yield [], lambda inputs: [drawn(inputs, s) for s in sizes]
    for s in sizes[:2]:
        bind = [f for name, shape in s.items() for f in ("--shape", f"{name}=" + "x".join(map(str, shape)))]
        yield bind, lambda inputs, s=s: [drawn(inputs, s)]


def judge(berth, model, sizes_only, count):
    with tempfile.TemporaryDirectory() as d:
        folder = pathlib.Path(d)
        try:
            for flags, feeds in cases(berth, model, folder, sizes_only):
                a, b = folder / "a.onnx", folder / "b.onnx"
                optimize(berth, model, a, *flags)
                optimize(berth, model, b, *flags, "--threads", "2")
                why = "other bytes with two threads" if not filecmp.cmp(a, b, False) else check(model, a, feeds)
                count["wrong" if why else "right"] += 1
                if why:
                    print(model, *flags, why, flush=True)
        except Nothing as e:
            count["shows nothing"] += 1
            print("nothing shown:", model, str(e)[:200], flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--berth", default="berth", help="the command, with its arguments")
    p.add_argument("--sizes", action="store_true", help="random inputs of several sizes also where inputs are recorded")
    p.add_argument("models", nargs="+", type=pathlib.Path)
    args = p.parse_args()
    count = collections.Counter()
    for model in args.models:
        judge(args.berth.split(), model, args.sizes, count)
    print(dict(count))
    sys.exit(1 if count["wrong"] else 0)


if __name__ == "__main__":
    main()
