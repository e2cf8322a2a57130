# Times steps of PyTorch (eager, one thread) for the nets of BenchmarkStep in train/bench_test.go: processor's time of a step.
import time
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(128), nn.LayerNorm(128)
        self.qkv, self.proj = nn.Linear(128, 384, bias=False), nn.Linear(128, 128, bias=False)
        self.up, self.down = nn.Linear(128, 512, bias=False), nn.Linear(512, 128, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(self.n1(x)).reshape(8, 64, 3, 4, 32).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(8, 64, 128))
        return x + self.down(F.gelu(self.up(self.n2(x))))


nets = dict(
    mlp=(nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)), torch.randn(64, 784), torch.zeros(64, dtype=torch.long), F.cross_entropy),
    cnn=(nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
         torch.randn(16, 3, 32, 32), torch.zeros(16, dtype=torch.long), F.cross_entropy),
    transformer=(Block(), torch.randn(8, 64, 128), torch.randn(8, 64, 128), F.mse_loss))
for name, (net, x, target, loss) in nets.items():
    opt, steps, end = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=.9), 0, time.time() + 4
    while time.time() < end or steps < 5:
        if steps == 5:
            start = time.process_time()
        opt.zero_grad()
        loss(net(x), target).backward()
        opt.step()
        steps += 1
    print(name, "%.0f µs" % ((time.process_time() - start) / (steps - 5) * 1e6))
