#!/usr/bin/env python3
"""Random models with ONNX Runtime's answers, to compare berth with.

    python gen.py [--each 2] [--seed 1] [--out FOLDER] [--only OPERATOR,...]
    python check.py [FOLDER] [--berth COMMAND]

Needs numpy, ml_dtypes, onnx and onnxruntime (1.31). FOLDER is by default
berth/ortfuzz in the user's cache folder. A case is an ONNX test folder: model.onnx,
test_data_set_0, tolerance.json, and case.json, which says what it is a case of. The
same seed gives the same cases.

Every operator with a generator is asked for in every version that an operator set
from 7 to the newest that ONNX Runtime loads has, and in every element type that the
version's schema allows for its primary type parameter: --each times that many cases
(four times as many for float32). Types that ONNX Runtime has no kernel for are asked
for twice and then left out. Shapes are small and odd on purpose: broadcasts of every
form, dimensions of 0 and 1, rank 0, negative axes, NaN, infinities, zeros of both
signs, denormal numbers, the ends of integer ranges. ONNX Runtime runs the models as
they are written, without its own rewriting.

check.py runs berth verify over the cases with the reference kernels, with the fast
kernels on one and on four threads and after berth's own optimizing, counts by domain,
operator set and element type, and tells the differences that are explained in known.py
from those that are not.
"""

import argparse
import collections
import multiprocessing
import os
import pathlib
import shutil
import zlib

os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")  # the newest operator set may be unfinished

import numpy as np
from onnx import helper

import runtime
from draw import B, D, F, GENERATORS, H, S, Draw, is_float, label, proto_type

import chains
import ops_contrib
import ops_control
import ops_math
import ops_microsoft
import ops_ml
import ops_nn
import ops_tensor

TOLERANCE = {"float64": (1e-6, 1e-7), "float32": (1e-4, 1e-5), "float16": (3e-3, 2e-3), "bfloat16": (2e-2, 2e-2)}


def build(d, ins, attrs, outs, more):
    """A model of one node, and what it is given. Operands after the first are constants half the time."""
    present = outs if isinstance(outs, str) else "1" * outs
    names = ["" if a is None else f"i{i}" for i, a in enumerate(ins)]
    results = [f"o{i}" if p == "1" else "" for i, p in enumerate(present)]
    nodes = more.get("nodes") or [helper.make_node(d.op, names, results, domain=d.domain, **attrs)]
    fixed = {i for i in range(1, len(ins)) if isinstance(ins[i], np.ndarray) and d.chance(0.5)}
    fixed = (fixed | set(more.get("const", ()))) - set(more.get("feed", ()))
    fixed = {i for i in fixed if i < len(ins) and ins[i] is not None}
    given = [i for i, a in enumerate(ins) if a is not None and i not in fixed]
    static = d.chance(0.5)
    inputs = []
    for i in given:
        dims = None
        if isinstance(ins[i], np.ndarray):
            dims = list(ins[i].shape) if static else [f"i{i}_{k}" for k in range(ins[i].ndim)]
        inputs.append(runtime.info(f"i{i}", ins[i], dims))
    captured = more.get("captured", {})
    inputs += [runtime.info(n, a) for n, a in captured.items()]
    kinds = more.get("kinds", {})
    outputs = [helper.make_tensor_value_info(o, kinds[i], None) if i in kinds else helper.make_empty_tensor_value_info(o)
               for i, o in enumerate(results) if o]
    graph = helper.make_graph(nodes, d.op, inputs, outputs, [runtime.tensor(ins[i], f"i{i}") for i in sorted(fixed)])
    return helper.make_model(graph, opset_imports=runtime.opsets(d.domain, d.opset), ir_version=10), {f"i{i}": ins[i] for i in given} | captured


def tolerance(results, more):
    """The loosest of the results' types, unless the generator says something else."""
    kinds = [r.dtype.name for r in results if isinstance(r, np.ndarray)] or ["float32"]
    pairs = [TOLERANCE.get(k, (1e-4, 1e-5)) for k in kinds]
    return more.get("rtol", max(p[0] for p in pairs)), more.get("atol", max(p[1] for p in pairs))


class Maker:
    """Makes cases and counts them: made and refused by operator, why by case."""

    def __init__(self, a):
        self.a, self.made, self.refused, self.why = a, collections.Counter(), collections.Counter(), {}

    def case(self, schema, t, k):
        """Makes one case; says why not if ONNX Runtime does not run it."""
        name = case_name(schema, t, k)
        seed = zlib.crc32(f"{self.a.seed} {name}".encode())
        d = Draw(seed, schema, 0, t)
        d.opset = d.int(max(schema.since, 7 if schema.domain == "" else 1), schema.until)
        make, _ = GENERATORS[schema.domain, schema.name]
        with np.errstate(all="ignore"):
            got = make(d)
        if got is None:
            return NO_KERNEL
        ins, attrs, outs, more = got if len(got) == 4 else (*got, {})
        ins = [x if x is None or isinstance(x, (list, dict)) else np.asarray(x) for x in ins]
        try:
            m, feeds = build(d, ins, attrs, outs, more)
            results = runtime.answer(m, feeds)
        except Exception as e:  # ONNX Runtime does not run it
            return str(e) or type(e).__name__
        rtol, atol = tolerance(results, more)
        about = {"domain": d.domain, "op": d.op, "since": schema.since, "opset": d.opset, "type": label(t), "rtol": rtol, "atol": atol}
        runtime.save(self.a.out / name, m, list(feeds.values()), results, about)
        return ""

    def chains(self, top):
        """Small graphs."""
        for k in range(self.a.chains):
            d = Draw([self.a.seed, k])
            d.opset = d.int(14, top)
            m, feeds, more, kind = chains.chain(d)
            try:
                results = runtime.answer(m, feeds)
            except Exception as e:
                self.refused["chains", kind] += 1
                self.why[f"chain-{k}"] = str(e)
                continue
            about = {"domain": "chains", "op": kind, "since": 0, "opset": d.opset, "type": "float32", **more}
            runtime.save(self.a.out / f"chain-{kind}-{k}", m, list(feeds.values()), results, about)
            self.made["chains", kind] += 1

    def wanted(self, schema):
        """The element types and numbers of the cases of one version of an operator."""
        _, param = GENERATORS[schema.domain, schema.name]
        if schema.name == "QuantizeLinear" and schema.since >= 23:
            param = "T3"  # the result's type got another name
        types = [t for t in schema.types.get(param, [np.dtype(F)]) if t is not None and t.kind != "c"]
        return [(t, k) for t in types for k in range(self.a.each * (4 if t == F or len(types) == 1 else 1))]

    def version(self, schema):
        """All cases of one version of an operator, in a process of its own: some
        models end ONNX Runtime's."""
        todo = self.wanted(schema)
        while todo:
            ours, theirs = multiprocessing.Pipe()
            child = multiprocessing.get_context("fork").Process(target=self.work, args=(schema, todo, theirs))
            child.start()
            theirs.close()
            todo = self.collect(schema, todo, ours)
            child.join()

    def work(self, schema, todo, pipe):
        bad = collections.Counter()
        for t, k in todo:
            why = self.case(schema, t, k) if bad[t] < 2 else NO_KERNEL
            bad[t] += any(w in why for w in HOPELESS)
            pipe.send(why)

    def collect(self, schema, todo, pipe):
        """Counts what the process says; returns what is left after one that ended it."""
        for at, (t, k) in enumerate(todo):
            try:
                why = pipe.recv()
            except EOFError:
                self.refused[schema.domain, schema.name] += 1
                self.why[case_name(schema, t, k)] = "ends the process"
                return todo[at + 1:]
            if not why:
                self.made[schema.domain, schema.name] += 1
            elif why != NO_KERNEL:
                self.refused[schema.domain, schema.name] += 1
                self.why[case_name(schema, t, k)] = why
        return []


NO_KERNEL = "NOT_IMPLEMENTED"
HOPELESS = (NO_KERNEL, "Type Error", "is invalid", "type inference failed")


def case_name(schema, t, k):
    return f"{schema.domain or 'onnx'}.{schema.name}-{schema.since}-{label(t)}-{k}"


def main():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--each", type=int, default=2)
    p.add_argument("--chains", type=int, default=600, help="how many graphs of several nodes")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", default="")
    p.add_argument("--why", action="store_true", help="say why ONNX Runtime refuses cases")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path(cache) / "berth" / "ortfuzz")
    a = p.parse_args()
    shutil.rmtree(a.out, ignore_errors=True)
    maker, only = Maker(a), set(filter(None, a.only.split(",")))
    asked = 0
    top = runtime.newest()
    if not only or "chains" in only:
        maker.chains(top)
    for s in runtime.schemas(top):
        if (s.domain, s.name) in GENERATORS and (not only or s.name in only):
            asked += 1
            maker.version(s)
    print(f"{sum(maker.made.values())} cases of {len(maker.made)} operators in {asked} versions in {a.out}")
    print("refused:", {n: c for (_, n), c in sorted(maker.refused.items())})
    print("without a case:", sorted(n for d, n in GENERATORS if not only and (d, n) not in maker.made))
    if a.why:
        for name, e in sorted(maker.why.items()):
            print(name, e.replace("\n", " ")[:300])


if __name__ == "__main__":
    main()
