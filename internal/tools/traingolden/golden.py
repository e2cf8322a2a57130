# Writes train/testdata/pytorch.json: losses of 20 steps and derivatives by all weights that PyTorch computes for the
# models of train/pytorch_test.go, from the same numbers. Usage: python golden.py ../../../train/testdata/pytorch.json
import json, math, sys
import torch
import torch.nn.functional as F

torch.set_num_threads(1)
DOUBLE = torch.float64


def waves(scale, seed, *shape):
    n = math.prod(shape)
    v = torch.tensor([math.sin(i * 1.7 + seed) * scale for i in range(n)], dtype=DOUBLE)
    return v.to(torch.float32).to(DOUBLE).reshape(shape)


def mlp():
    w = dict(w1=waves(.7, 1, 3, 5), b1=waves(.1, 2, 5), w2=waves(.6, 3, 5, 2), b2=waves(.1, 4, 2))
    x, labels = waves(1, 5, 4, 3), torch.tensor([0, 1, 1, 0])
    return w, lambda: F.cross_entropy(torch.tanh(x @ w["w1"] + w["b1"]) @ w["w2"] + w["b2"], labels)


def cnn():
    w = dict(k1=waves(.4, 1, 4, 2, 3, 3), c1=waves(.1, 2, 4), s=1 + waves(.2, 3, 4), o=waves(.1, 4, 4),
             k2=waves(.3, 5, 6, 4, 3, 3), w=waves(.5, 6, 6, 3), b=waves(.1, 7, 3))
    w["s"] = w["s"].to(torch.float32).to(DOUBLE)
    x, labels = waves(1, 8, 4, 2, 8, 8), torch.tensor([0, 1, 2, 1])

    def loss():
        y = F.conv2d(x, w["k1"], w["c1"], padding=1)
        y = F.relu(F.batch_norm(y, None, None, w["s"], w["o"], training=True, eps=1e-5))
        y = F.relu(F.conv2d(F.max_pool2d(y, 2), w["k2"], stride=2))
        return F.cross_entropy(y.mean((2, 3)) @ w["w"] + w["b"], labels)
    return w, loss


def transformer():
    w = dict(table=waves(.5, 1, 11, 8), place=waves(.3, 2, 6, 8), g1=(1 + waves(.1, 3, 8)).float().double(), h1=waves(.1, 4, 8), qkv=waves(.4, 5, 8, 24),
             proj=waves(.3, 6, 8, 8), g2=(1 + waves(.1, 7, 8)).float().double(), h2=waves(.1, 8, 8), up=waves(.4, 9, 8, 16), down=waves(.3, 10, 16, 8), head=waves(.4, 11, 8, 11))
    ids = torch.tensor([[1, 4, 2, 4, 10, 0], [3, 3, 5, 9, 8, 7]])
    labels = torch.tensor([[4, 2, 4, 10, 0, 1], [3, 5, 9, 8, 7, 6]])

    def loss():
        x = w["table"][ids] + w["place"]
        q, k, v = (F.layer_norm(x, (8,), w["g1"], w["h1"]) @ w["qkv"]).reshape(2, 6, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + y.transpose(1, 2).reshape(2, 6, 8) @ w["proj"]
        x = x + F.gelu(F.layer_norm(x, (8,), w["g2"], w["h2"]) @ w["up"]) @ w["down"]
        return F.cross_entropy((x @ w["head"]).transpose(1, 2), labels)
    return w, loss


def lstm():
    w = dict(wx=waves(.5, 1, 2, 16), wh=waves(.4, 2, 4, 16), b=waves(.2, 3, 16), out=waves(.5, 4, 4, 2))
    x, target = waves(1, 5, 5, 3, 2), waves(.5, 6, 3, 2)

    def loss():
        h, c = torch.zeros(3, 4, dtype=DOUBLE), torch.zeros(3, 4, dtype=DOUBLE)
        for t in range(5):
            i, f, g, o = (x[t] @ w["wx"] + h @ w["wh"] + w["b"]).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return ((h @ w["out"] - target) ** 2).mean()
    return w, loss


def gru():
    w = dict(w=waves(.5, 1, 1, 12, 2), r=waves(.4, 2, 1, 12, 4), b=waves(.2, 3, 1, 24), out=waves(.5, 4, 4, 2))
    x, target = waves(1, 5, 5, 3, 2), waves(.5, 6, 3, 2)

    def loss():
        h = torch.zeros(3, 4, dtype=DOUBLE)
        bw, br = w["b"][0].split(12)
        for t in range(5):
            zx, rx, nx = (x[t] @ w["w"][0].T + bw).chunk(3, 1)
            zh, rh, nh = (h @ w["r"][0].T + br).chunk(3, 1)
            z, r = torch.sigmoid(zx + zh), torch.sigmoid(rx + rh)
            h = (1 - z) * torch.tanh(nx + r * nh) + z * h
        return ((h @ w["out"] - target) ** 2).mean()
    return w, loss


def unet():
    w = dict(k1=waves(.4, 1, 4, 1, 3, 3), c1=waves(.1, 2, 4), k2=waves(.3, 3, 8, 4, 3, 3), s=(1 + waves(.2, 4, 8)).float().double(), o=waves(.1, 5, 8), up=waves(.3, 6, 8, 4, 2, 2), cu=waves(.1, 7, 4),
             k3=waves(.2, 8, 4, 8, 3, 3), k4=waves(.4, 9, 2, 4, 1, 1), c4=waves(.1, 10, 2))
    x, labels = waves(1, 11, 2, 1, 8, 8), torch.tensor([i * 7 // 3 % 2 for i in range(128)]).reshape(2, 8, 8)

    def loss():
        a = F.relu(F.conv2d(x, w["k1"], w["c1"], padding=1))
        b = F.conv2d(F.max_pool2d(a, 2), w["k2"], padding=1)
        b = F.relu(F.instance_norm(b, weight=w["s"], bias=w["o"], eps=1e-5))
        u = F.conv_transpose2d(b, w["up"], w["cu"], stride=2)
        d = F.relu(F.conv2d(torch.cat([u, a], 1), w["k3"], padding=1))
        return F.cross_entropy(F.conv2d(d, w["k4"], w["c4"]), labels)
    return w, loss


def vit():
    w = dict(patch=waves(.2, 1, 8, 3, 4, 4), place=waves(.3, 3, 1, 5, 8), g1=(1 + waves(.1, 4, 8)).float().double(), h1=waves(.1, 5, 8), qkv=waves(.4, 6, 8, 24), proj=waves(.3, 7, 8, 8),
             g2=(1 + waves(.1, 8, 8)).float().double(), h2=waves(.1, 9, 8), up=waves(.4, 10, 8, 16), bu=waves(.1, 11, 16), down=waves(.3, 12, 16, 8), head=waves(.4, 13, 8, 3), b=waves(.1, 14, 3))
    w["class"] = waves(.3, 2, 1, 1, 8)
    x, labels = waves(1, 15, 2, 3, 8, 8), torch.tensor([2, 0])

    def loss():
        e = F.conv2d(x, w["patch"], stride=4).reshape(2, 8, 4).transpose(1, 2)
        e = torch.cat([w["class"].expand(2, 1, 8), e], 1) + w["place"]
        q, k, v = (F.layer_norm(e, (8,), w["g1"], w["h1"]) @ w["qkv"]).reshape(2, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.transpose(2, 3) * .5, -1) @ v
        r = e + a.transpose(1, 2).reshape(2, 5, 8) @ w["proj"]
        z = r + F.gelu(F.layer_norm(r, (8,), w["g2"], w["h2"]) @ w["up"] + w["bu"]) @ w["down"]
        return F.cross_entropy(z[:, 0] @ w["head"] + w["b"], labels)
    return w, loss


def gpt():
    w = dict(table=waves(.5, 1, 11, 8), place=waves(.3, 2, 4, 8), g1=(1 + waves(.1, 3, 8)).float().double(), h1=waves(.1, 4, 8), qkv=waves(.4, 5, 8, 24), bq=waves(.1, 6, 24), proj=waves(.3, 7, 8, 8),
             g2=(1 + waves(.1, 8, 8)).float().double(), h2=waves(.1, 9, 8), up=waves(.4, 10, 8, 16), down=waves(.3, 11, 16, 8), gf=(1 + waves(.1, 12, 8)).float().double(), hf=waves(.1, 13, 8))
    ids, labels = torch.tensor([[1, 4, 2, 4], [3, 5, 9, 8]]), torch.tensor([[4, 2, 4, 10], [5, 9, 8, 7]])
    past_k, past_v = waves(.5, 14, 2, 2, 3, 4), waves(.5, 15, 2, 2, 3, 4)

    def loss():
        e = w["table"][ids] + w["place"]
        q, k, v = ((F.layer_norm(e, (8,), w["g1"], w["h1"]) @ w["qkv"] + w["bq"]).reshape(2, 4, 3, 2, 4)).permute(2, 0, 3, 1, 4)
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        scores = (q @ k.transpose(2, 3) * .5).masked_fill(torch.ones(4, 7, dtype=torch.bool).triu(4), -math.inf)
        r = e + (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(2, 4, 8) @ w["proj"]
        z = r + F.gelu(F.layer_norm(r, (8,), w["g2"], w["h2"]) @ w["up"], approximate="tanh") @ w["down"]
        return F.cross_entropy((F.layer_norm(z, (8,), w["gf"], w["hf"]) @ w["table"].T).transpose(1, 2), labels)
    return w, loss


def scan():
    w = dict(w=waves(.5, 1, 2, 4), r=waves(.4, 2, 4, 4), b=waves(.2, 3, 4), out=waves(.5, 4, 4, 2))
    x, target = waves(1, 5, 6, 3, 2), waves(.5, 6, 6, 3, 2)

    def loss():
        h, all = torch.zeros(3, 4, dtype=DOUBLE), []
        for t in range(6):
            h = torch.tanh(x[t] @ w["w"] + h @ w["r"] + w["b"])
            all.append(h @ w["out"])
        return ((torch.stack(all) - target) ** 2).mean()
    return w, loss


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=.1, weight_decay=.01),
    "momentum": lambda p: torch.optim.SGD(p, lr=.02, momentum=.9, weight_decay=.01),
    "nesterov": lambda p: torch.optim.SGD(p, lr=.02, momentum=.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=.01, betas=(.9, .99), eps=1e-8, weight_decay=.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=.01, betas=(.9, .99), eps=1e-8, weight_decay=.1),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=.05, eps=1e-10),
    "clipped": lambda p: torch.optim.SGD(p, lr=.1),
}


def run(make, name, rate):
    w, loss = make()
    for v in w.values():
        v.requires_grad_()
    opt, out = OPTIMIZERS[name](list(w.values())), []
    for group in opt.param_groups:
        group["lr"] *= rate
    for _ in range(20):
        opt.zero_grad()
        l = loss()
        l.backward()
        if name == "clipped":
            torch.nn.utils.clip_grad_norm_(list(w.values()), .05)
        opt.step()
        out.append(l.item())
    return out


def slopes(make):
    w, loss = make()
    for v in w.values():
        v.requires_grad_()
    loss().backward()
    return {k: [float("%.7g" % x) for x in v.grad.flatten().tolist()] for k, v in w.items()}


models = dict(mlp=mlp, cnn=cnn, transformer=transformer, lstm=lstm, gru=gru, unet=unet, vit=vit, gpt=gpt, scan=scan)
rates = dict(vit=.25, gpt=.05)  # of the optimizers' rates: at full ones losses jump, and float32 in PyTorch itself is 1.7e-4 away from float64 (gpt by Adagrad at a half: 3.6e-3, and float64 with noise of 6e-8 of the largest derivative 1.5e-4); Adagrad's first steps are as long for derivatives that are rounding alone
golden = {n: dict(rate=rates.get(n, 1), losses={o: run(m, o, rates.get(n, 1)) for o in OPTIMIZERS}, slopes=slopes(m)) for n, m in models.items()}
for n in rates:
    golden[n]["full"] = {o: run(models[n], o, 1) for o in OPTIMIZERS}  # for steps in float64
golden["pytorch"] = torch.__version__
json.dump(golden, open(sys.argv[1], "w"), indent=None, separators=(",", ":"))
