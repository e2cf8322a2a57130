#!/usr/bin/env python3
"""Runs berth over the cases that gen.py made and says what differs.

    python check.py [FOLDER] [--berth COMMAND] [--brief] > RESULTS.md

Each case is judged four times: the reference kernels on the graph as written, the
program with the fast kernels on one and on four threads, and the model that berth
optimizes. A difference that known.py explains is counted under its explanation; of the
others it is said whether ONNX's own reference implementation sides with ONNX Runtime.
The exit status is 1 if a difference is left unexplained.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime as ort

import known

MODES = {"reference": ["--backend", "reference"], "fast": [], "fast, 4 threads": ["--threads", "4"], "optimized": ["--optimized"]}


def verdicts(berth, folder, flags):
    """Case name -> None, or what berth says about it."""
    with tempfile.TemporaryDirectory() as d:
        listed = pathlib.Path(d) / "list.txt"
        subprocess.run([*berth.split(), "verify", str(folder), "--list", str(listed), *flags], capture_output=True, check=False)
        out = {}
        for line in listed.read_text().splitlines():
            state, _, rest = line.partition(" ")
            if state == "PASS":
                out[rest] = None
            elif state == "FAIL":
                name, _, why = rest.partition(": ")
                out[name] = why
        return out


def same(a, b):
    """Whether two results are about the same."""
    if a is None or b is None or a.shape != b.shape:
        return False
    try:
        return np.allclose(a.astype(np.float64), b.astype(np.float64), 1e-3, 1e-4, equal_nan=True)
    except (TypeError, ValueError):
        return [str(x) for x in a.reshape(-1)] == [str(x) for x in b.reshape(-1)]


def second_opinion(berth, case):
    """With whom ONNX's reference implementation sides."""
    from onnx.reference import ReferenceEvaluator
    try:
        with np.errstate(all="ignore"):
            theirs = ReferenceEvaluator(case.model).run(None, case.inputs)
    except Exception as e:
        return f"does not run ({type(e).__name__})"
    theirs = [np.asarray(r) for r in theirs]
    with tempfile.TemporaryDirectory() as d:
        subprocess.run([*berth.split(), "run", str(case.folder / "model.onnx"), "--data", str(case.folder / "test_data_set_0"), "--output-dir", d],
                       capture_output=True, check=False)
        ours = []
        for o in case.model.graph.output:
            path = pathlib.Path(d) / f"{o.name}.npy"
            ours.append(np.load(path, allow_pickle=True) if path.exists() else None)
    with_ours = all(same(a, b) for a, b in zip(theirs, ours))
    with_ort = all(same(a, b) for a, b in zip(theirs, case.outputs))
    return {(True, True): "is near both", (True, False): "sides with berth", (False, True): "SIDES WITH ONNX RUNTIME"}.get((with_ours, with_ort), "differs from both")


def table(title, count, differ):
    print(f"\n| {title} | cases | differ |\n|---|---:|---:|")
    for k in sorted(count, key=lambda k: (isinstance(k, str), k)):
        print(f"| {k} | {count[k]} | {differ[k] or ''} |")


def main():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", nargs="?", type=pathlib.Path, default=pathlib.Path(cache) / "berth" / "ortfuzz")
    p.add_argument("--berth", default="berth")
    p.add_argument("--brief", action="store_true", help="leave the tables out")
    a = p.parse_args()
    modes = {m: verdicts(a.berth, a.folder, flags) for m, flags in MODES.items()}
    names = sorted(modes["reference"])
    about = {n: json.loads((a.folder / n / "case.json").read_text()) for n in names}
    bad = {n: [m for m in MODES if modes[m].get(n, "did not run")] for n in names}
    bad = {n: ms for n, ms in bad.items() if ms}
    reasons, open_questions, cases = collections.Counter(), [], {}
    for n, ms in bad.items():
        cases[n] = known.Case(a.folder / n, about[n], modes[ms[0]].get(n) or "did not run")
        why = known.explain(cases[n])
        reasons[why or "not explained"] += 1
        if not why:
            open_questions.append(n)
    if not a.brief:
        print(f"# berth and ONNX Runtime {ort.__version__} on random models\n\nWritten by check.py from the cases of gen.py; see there.")
        for key in ("domain", "opset", "type"):
            named = names if key != "opset" else [n for n in names if about[n]["domain"] in ("", "chains")]
            count = collections.Counter(about[n][key] or "ai.onnx" for n in named)
            table(key, count, collections.Counter(about[n][key] or "ai.onnx" for n in bad if n in named))
    print(f"\n{len(names)} cases of {len({(x['domain'], x['op']) for x in about.values()})} operators; {len(bad)} differ.\n")
    print("| way of running | differ |\n|---|---:|")
    for m in MODES:
        print(f"| {m} | {sum(v is not None for v in modes[m].values())} |")
    print("\n| cases | why |\n|---:|---|")
    for why, n in sorted(reasons.items()):
        print(f"| {n} | {why} |")
    for n in open_questions:
        m = bad[n]
        print(f"? {n} [{', '.join(m)}] {(modes[m[0]].get(n) or 'did not run').split(': ', 1)[-1][:200]}; ONNX's reference {second_opinion(a.berth, cases[n])}")
    sys.exit(bool(open_questions))


if __name__ == "__main__":
    main()
