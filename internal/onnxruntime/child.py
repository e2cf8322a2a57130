"""Runs a model in ONNX Runtime for a parent process, which asks in JSON: a line is a question, a line its answer."""
import json, os, sys, time

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what libraries print is no answer


def peak_resident():
    """The largest resident size so far, in bytes; 0 where it is not known."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    except ImportError:
        return 0


class Child:
    def hello(self, ask):
        import numpy, onnxruntime
        self.numpy, self.ort = numpy, onnxruntime
        onnxruntime.set_default_logger_severity(3)
        return {"version": onnxruntime.__version__, "python": sys.version.split()[0]}

    def options(self):
        o = self.ort.SessionOptions()
        o.intra_op_num_threads, o.inter_op_num_threads = self.threads, 1
        return o

    def session(self, options):
        return self.ort.InferenceSession(self.model, options, providers=["CPUExecutionProvider"])

    def open(self, ask):
        self.model, self.threads, self.dir = ask["model"], ask["threads"], ask["dir"]
        start = peak_resident()
        began = time.perf_counter_ns()
        self.loaded = self.session(self.options())
        load = time.perf_counter_ns() - began
        wanted = {i.name for i in self.loaded.get_inputs()}
        self.feed = {k: self.numpy.load(f, allow_pickle=False) for k, f in ask["inputs"].items() if k in wanted}
        for _ in range(3):
            self.loaded.run(None, self.feed)
        return {"load_ns": load, "start_rss_bytes": start}

    def time(self, ask):
        nanos, end = [], time.perf_counter() + ask["seconds"]
        while len(nanos) < 3 or time.perf_counter() < end:
            began = time.perf_counter_ns()
            self.loaded.run(None, self.feed)
            nanos.append(time.perf_counter_ns() - began)
        return {"ns": nanos, "peak_rss_bytes": peak_resident()}

    def outputs(self, ask):
        files = {}
        for i, (o, y) in enumerate(zip(self.loaded.get_outputs(), self.loaded.run(None, self.feed))):
            if isinstance(y, self.numpy.ndarray) and y.dtype.kind in "biuf":
                files[o.name] = os.path.join(self.dir, "output%d.npy" % i)
                self.numpy.save(files[o.name], y)
        return {"files": files}

    def profile(self, ask):
        self.loaded = None
        options = self.options()
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(self.dir, "profile")
        graph = os.path.join(self.dir, "optimized.onnx")
        options.optimized_model_filepath = graph
        try:
            session = self.session(options)
        except Exception:  # such as a model too large for one file
            graph = ""
            options = self.options()
            options.enable_profiling = True
            options.profile_file_prefix = os.path.join(self.dir, "profile")
            session = self.session(options)
        for _ in range(ask["runs"] + 2):
            session.run(None, self.feed)
        with open(session.end_profiling()) as f:
            events = json.load(f)
        return {"graph": graph, "nodes": nodes_of(events)}


def nodes_of(events):
    """Time of every node in a run: the mean of the middle half of the runs, because single times are in whole microseconds."""
    runs = sorted(e["ts"] for e in events if e.get("cat") == "Session" and e["name"] == "model_run")[2:]
    nodes = {}
    for e in sorted((e for e in events if e.get("cat") == "Node" and e["name"].endswith("_kernel_time")), key=lambda e: e["ts"]):
        run = sum(1 for r in runs if r <= e["ts"]) - 1
        if run < 0:
            continue
        name = e["name"][:-len("_kernel_time")]
        node = nodes.setdefault(name, {"name": name, "op": e["args"].get("op_name", ""), "us": [0] * len(runs)})
        node["us"][run] += e["dur"]
    for node in nodes.values():
        times = sorted(node.pop("us"))
        middle = times[len(times) // 4:len(times) - len(times) // 4]
        node["ns"] = round(1000 * sum(middle) / len(middle))
    return list(nodes.values())


child = Child()
for line in sys.stdin:
    try:
        ask = json.loads(line)
        answer = getattr(child, ask["do"])(ask)
    except Exception as e:
        answer = {"error": "%s: %s" % (type(e).__name__, e)}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
