# Times steps of training (forward, backward, momentum) of the nets of BenchmarkStep in train/bench_test.go beside PyTorch, eager, one
# thread or as many as BERTH_BENCH_THREADS says. Prints, for each net, the least processor's time (with several threads, the least time) of a step in both, in runs that alternate, and what each process holds at
# most while it takes steps above what it held before it made the net (/proc/self/status; libraries are loaded by a small step before).
#
#   go test -c -o steps ./train && python internal/tools/traingolden/bench.py ./steps [net ...]
import math, os, re, subprocess, sys, time

THREADS = int(os.environ.get("BERTH_BENCH_THREADS", 1))
NAMES = ["mlp", "cnn", "transformer", "lstm", "gru", "unet", "vit", "gpt", "scan"]


def nets(torch):
    F, nn = torch.nn.functional, torch.nn
    w = lambda *s: nn.Parameter(torch.randn(*s) * .05)
    one = lambda n: nn.Parameter(torch.ones(n))

    def mlp():
        net, x = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)), torch.randn(64, 784)
        return list(net.parameters()), lambda: F.cross_entropy(net(x), torch.zeros(64, dtype=torch.long))

    def cnn():
        net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
        x = torch.randn(16, 3, 32, 32)
        return list(net.parameters()), lambda: F.cross_entropy(net(x), torch.zeros(16, dtype=torch.long))

    def transformer():
        p, x, t = [one(128), w(128), w(384, 128), w(128, 128), one(128), w(128), w(512, 128), w(128, 512)], torch.randn(8, 64, 128), torch.randn(8, 64, 128)

        def loss():
            q, k, v = F.linear(F.layer_norm(x, (128,), p[0], p[1]), p[2]).reshape(8, 64, 3, 4, 32).permute(2, 0, 3, 1, 4)
            r = x + F.linear(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(8, 64, 128), p[3])
            return F.mse_loss(r + F.linear(F.gelu(F.linear(F.layer_norm(r, (128,), p[4], p[5]), p[6])), p[7]), t)
        return p, loss

    def lstm():
        p, x, t = [w(64, 512), w(128, 512), w(512), w(128, 10)], torch.randn(32, 32, 64), torch.randn(32, 10)

        def loss():
            h, c = torch.zeros(32, 128), torch.zeros(32, 128)
            for s in range(32):
                i, f, g, o = (x[s] @ p[0] + h @ p[1] + p[2]).chunk(4, 1)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(c)
            return F.mse_loss(h @ p[3], t)
        return p, loss

    def gru():
        net, out, x, t = nn.GRU(64, 128), w(128, 10), torch.randn(32, 32, 64), torch.randn(32, 10)
        return list(net.parameters()) + [out], lambda: F.mse_loss(net(x)[1][0] @ out, t)

    def unet():
        p = [w(16, 3, 3, 3), w(16), w(32, 16, 3, 3), one(32), w(32), w(32, 16, 2, 2), w(16), w(16, 32, 3, 3), w(2, 16, 1, 1), w(2)]
        x, t = torch.randn(4, 3, 64, 64), torch.randint(2, (4, 64, 64))

        def loss():
            a = F.relu(F.conv2d(x, p[0], p[1], padding=1))
            b = F.relu(F.instance_norm(F.conv2d(F.max_pool2d(a, 2), p[2], padding=1), weight=p[3], bias=p[4], eps=1e-5))
            d = F.relu(F.conv2d(torch.cat([F.conv_transpose2d(b, p[5], p[6], stride=2), a], 1), p[7], padding=1))
            return F.cross_entropy(F.conv2d(d, p[8], p[9]), t)
        return p, loss

    def attended(e, q, k, v, p, mask):
        s = q @ k.transpose(2, 3) * 32 ** -.5
        s = s if mask is None else s + mask
        return e + (torch.softmax(s, -1) @ v).transpose(1, 2).reshape(e.shape) @ p

    def vit():
        p = dict(patch=w(128, 3, 8, 8), cls=w(1, 1, 128), place=w(1, 65, 128), g1=one(128), h1=w(128), qkv=w(128, 384), proj=w(128, 128), g2=one(128), h2=w(128), up=w(128, 512), bu=w(512), down=w(512, 128), head=w(128, 10), b=w(10))
        x, t = torch.randn(8, 3, 64, 64), torch.randint(10, (8,))

        def loss():
            e = torch.cat([p["cls"].expand(8, 1, 128), F.conv2d(x, p["patch"], stride=8).reshape(8, 128, 64).transpose(1, 2)], 1) + p["place"]
            q, k, v = (F.layer_norm(e, (128,), p["g1"], p["h1"]) @ p["qkv"]).reshape(8, 65, 3, 4, 32).permute(2, 0, 3, 1, 4)
            r = attended(e, q, k, v, p["proj"], None)
            z = r + F.gelu(F.layer_norm(r, (128,), p["g2"], p["h2"]) @ p["up"] + p["bu"]) @ p["down"]
            return F.cross_entropy(z[:, 0] @ p["head"] + p["b"], t)
        return list(p.values()), loss

    def gpt():
        p = dict(table=w(1000, 128), place=w(64, 128), g1=one(128), h1=w(128), qkv=w(128, 384), bq=w(384), proj=w(128, 128), g2=one(128), h2=w(128), up=w(128, 512), down=w(512, 128), gf=one(128), hf=w(128))
        ids, t, pk, pv = torch.randint(1000, (4, 64)), torch.randint(1000, (4, 64)), torch.randn(4, 4, 64, 32), torch.randn(4, 4, 64, 32)
        mask = torch.full((64, 128), -1e30).triu(65)

        def loss():
            e = p["table"][ids] + p["place"]
            q, k, v = (F.layer_norm(e, (128,), p["g1"], p["h1"]) @ p["qkv"] + p["bq"]).reshape(4, 64, 3, 4, 32).permute(2, 0, 3, 1, 4)
            r = attended(e, q, torch.cat([pk, k], 2), torch.cat([pv, v], 2), p["proj"], mask)
            z = r + F.gelu(F.layer_norm(r, (128,), p["g2"], p["h2"]) @ p["up"], approximate="tanh") @ p["down"]
            return F.cross_entropy((F.layer_norm(z, (128,), p["gf"], p["hf"]) @ p["table"].T).transpose(1, 2), t)
        return list(p.values()), loss

    def scan():
        p, x, t = [w(64, 128), w(128, 128), w(128), w(128, 10)], torch.randn(64, 32, 64), torch.randn(64, 32, 10)

        def loss():
            h, every = torch.zeros(32, 128), []
            for s in range(64):
                h = torch.tanh(x[s] @ p[0] + h @ p[1] + p[2])
                every.append(h)
            return F.mse_loss(torch.stack(every) @ p[3], t)
        return p, loss
    return locals()


def status(what):
    return int(re.search(what + r":\s+(\d+)", open("/proc/self/status").read()).group(1)) * 1024


def one(name):
    import torch
    torch.set_num_threads(THREADS)
    warm = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 3), torch.nn.Flatten(), torch.nn.Linear(4, 2))  # loads libraries
    opt = torch.optim.SGD(warm.parameters(), lr=1e-4, momentum=.9)
    warm(torch.randn(1, 1, 4, 4)).sum().backward()
    opt.step()
    before = status("VmRSS")
    params, loss = nets(torch)[name]()
    opt = torch.optim.SGD(params, lr=1e-4, momentum=.9)
    open("/proc/self/clear_refs", "w").write("5")
    best, wall, end, steps = math.inf, math.inf, time.time() + 3, 0
    while steps < 8 or time.time() < end:
        start, at = time.process_time(), time.perf_counter()
        opt.zero_grad()
        loss().backward()
        opt.step()
        best, wall, steps = min(best, time.process_time() - start), min(wall, time.perf_counter() - at), steps + 1
    print((best if THREADS == 1 else wall) * 1e6, status("VmHWM") - before)


def metric(text, name):
    m = re.search(r"([\d.e+]+) " + re.escape(name), text)
    return float(m.group(1)) if m else math.nan


def table(binary, names):
    print("%-12s %10s %10s %6s %9s %9s %6s %9s %7s" % ("net", "berth µs", "torch µs", "ratio", "berth KiB", "torch KiB", "ratio", "arena KiB", "budget"))
    ratios = []
    for name in names:
        ours, theirs = [], []
        for _ in range(3):
            env = dict(os.environ, BERTH_BENCH_BUDGET="1")
            ours.append(subprocess.run([binary, "-test.run", "^$", "-test.bench", "BenchmarkStep/%s$" % name, "-test.benchtime", "1.5s"], capture_output=True, text=True, env=env).stdout)
            theirs.append([float(v) for v in subprocess.run([sys.executable, __file__, "--one", name], capture_output=True, text=True).stdout.split()])
        a, b = min(metric(o, "cpu-µs") for o in ours), min(t[0] for t in theirs)
        m, n = min(metric(o, "held-B") for o in ours), min(t[1] for t in theirs)
        ratios.append((a / b, max(m, 1) / max(n, 1)))
        kept = re.search(r"(\S[^\n]*) kept|a step takes.*", "".join(ours))
        print("%-12s %10.0f %10.0f %6.2f %9.0f %9.0f %6.2f %9.0f %7.2f  %s" % (name, a, b, a / b, m / 1024, n / 1024, m / n, metric(ours[0], "arena-B") / 1024, min(metric(o, "half-budget") for o in ours), kept.group(0).strip() if kept else ""), flush=True)
    print("geometric means: time %.2f, memory %.2f" % tuple(math.exp(sum(math.log(r[i]) for r in ratios) / len(ratios)) for i in (0, 1)))


if sys.argv[1] == "--one":
    one(sys.argv[2])
else:
    table(sys.argv[1], sys.argv[2:] or NAMES)
