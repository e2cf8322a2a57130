//go:build unix

package train_test

import (
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/train"
)

// Models of further kinds in sizes that take milliseconds; bench.py has the same in PyTorch.
func init() {
	classes := func(count int, shape ...int) *ndarray.Array {
		a := ndarray.Must(ndarray.Int64, shape...)
		for i := range a.Len() {
			a.SetInt(i, int64(i*7/3%count))
		}
		return a
	}
	benchModels["lstm"] = pytorchModel{`in %x: float32[32,32,64] in %wx: float32[64,512] in %wh: float32[128,512] in %b: float32[512] in %out: float32[128,10] const %n: int64[] = 32 const %zero: float32[] = 0 const %s: int64[2] = [32,128]
		%h0 = Expand(%zero, %s) %h, %c = Loop(%n, _, %h0, %h0 | %x, %wx, %wh, %b) { body: graph "step" { in %t: int64[] in %go: bool[] in %h: float32[32,128] in %c: float32[32,128]
			in %x: float32[32,32,64] in %wx: float32[64,512] in %wh: float32[128,512] in %b: float32[512]
			%xt = Gather(%x, %t) %p = MatMul(%xt, %wx) %q = MatMul(%h, %wh) %pq = Add(%p, %q) %a = Add(%pq, %b) %i, %f, %g, %o = Split(%a) [axis=1, num_outputs=4]
			%is = Sigmoid(%i) %fs = Sigmoid(%f) %gt = Tanh(%g) %os = Sigmoid(%o) %fc = Mul(%fs, %c) %ig = Mul(%is, %gt) %cn = Add(%fc, %ig) %ct = Tanh(%cn) %hn = Mul(%os, %ct) out %go, %hn, %cn } }
		%y = MatMul(%h, %out) out %y`,
		map[string]*ndarray.Array{"wx": waves(.05, 1, 64, 512), "wh": waves(.04, 2, 128, 512), "b": waves(.2, 3, 512), "out": waves(.5, 4, 128, 10)},
		train.MeanSquaredError, []ndarray.Value{waves(1, 5, 32, 32, 64), waves(.5, 6, 32, 10)}}
	benchModels["gru"] = pytorchModel{`in %x: float32[32,32,64] in %w: float32[1,384,64] in %r: float32[1,384,128] in %b: float32[1,768] in %out: float32[128,10] const %axes: int64[1] = [0]
		_, %h = GRU(%x, %w, %r, %b) [hidden_size=128, linear_before_reset=1] %s = Squeeze(%h, %axes) %y = MatMul(%s, %out) out %y`,
		map[string]*ndarray.Array{"w": waves(.05, 1, 1, 384, 64), "r": waves(.04, 2, 1, 384, 128), "b": waves(.2, 3, 1, 768), "out": waves(.5, 4, 128, 10)},
		train.MeanSquaredError, []ndarray.Value{waves(1, 5, 32, 32, 64), waves(.5, 6, 32, 10)}}
	benchModels["unet"] = pytorchModel{`in %x: float32[4,3,64,64] in %k1: float32[16,3,3,3] in %c1: float32[16] in %k2: float32[32,16,3,3] in %s: float32[32] in %o: float32[32] in %up: float32[32,16,2,2] in %cu: float32[16]
		in %k3: float32[16,32,3,3] in %k4: float32[2,16,1,1] in %c4: float32[2]
		%a1 = Conv(%x, %k1, %c1) [pads=[1,1,1,1]] %a2 = Relu(%a1) %p = MaxPool(%a2) [kernel_shape=[2,2], strides=[2,2]]
		%b1 = Conv(%p, %k2) [pads=[1,1,1,1]] %b2 = InstanceNormalization(%b1, %s, %o) %b3 = Relu(%b2) %u = ConvTranspose(%b3, %up, %cu) [strides=[2,2]]
		%c = Concat(%u, %a2) [axis=1] %d1 = Conv(%c, %k3) [pads=[1,1,1,1]] %d2 = Relu(%d1) %y = Conv(%d2, %k4, %c4) out %y`,
		map[string]*ndarray.Array{"k1": waves(.3, 1, 16, 3, 3, 3), "c1": waves(.1, 2, 16), "k2": waves(.1, 3, 32, 16, 3, 3), "s": around1(.2, 4, 32), "o": waves(.1, 5, 32), "up": waves(.2, 6, 32, 16, 2, 2), "cu": waves(.1, 7, 16),
			"k3": waves(.1, 8, 16, 32, 3, 3), "k4": waves(.3, 9, 2, 16, 1, 1), "c4": waves(.1, 10, 2)},
		train.CrossEntropy, []ndarray.Value{waves(1, 11, 4, 3, 64, 64), classes(2, 4, 64, 64)}}
	benchModels["vit"] = pytorchModel{`in %x: float32[8,3,64,64] in %patch: float32[128,3,8,8] in %class: float32[1,1,128] in %place: float32[1,65,128] in %g1: float32[128] in %h1: float32[128] in %qkv: float32[128,384] in %proj: float32[128,128]
		in %g2: float32[128] in %h2: float32[128] in %up: float32[128,512] in %bu: float32[512] in %down: float32[512,128] in %head: float32[128,10] in %b: float32[10]
		const %flat: int64[3] = [8,128,64] const %lead: int64[3] = [8,1,128] const %heads: int64[5] = [8,65,3,4,32] const %joined: int64[3] = [8,65,128] const %first: int64[] = 0 const %root: float32[] = 0.17677669
		const %q0: int64[] = 0 const %q1: int64[] = 1 const %q2: int64[] = 2
		%e1 = Conv(%x, %patch) [strides=[8,8]] %e2 = Reshape(%e1, %flat) %e3 = Transpose(%e2) [perm=[0,2,1]] %ce = Expand(%class, %lead) %e4 = Concat(%ce, %e3) [axis=1] %e = Add(%e4, %place)
		%n1 = LayerNormalization(%e, %g1, %h1) %p = MatMul(%n1, %qkv) %p1 = Reshape(%p, %heads) %p2 = Transpose(%p1) [perm=[2,0,3,1,4]] %q = Gather(%p2, %q0) %k = Gather(%p2, %q1) %v = Gather(%p2, %q2)
		%kt = Transpose(%k) [perm=[0,1,3,2]] %s1 = MatMul(%q, %kt) %s2 = Mul(%s1, %root) %s3 = Softmax(%s2) %a1 = MatMul(%s3, %v) %a2 = Transpose(%a1) [perm=[0,2,1,3]] %a3 = Reshape(%a2, %joined)
		%a4 = MatMul(%a3, %proj) %r = Add(%e, %a4) %n2 = LayerNormalization(%r, %g2, %h2) %m1 = MatMul(%n2, %up) %m2 = Add(%m1, %bu) %m3 = Gelu(%m2) %m4 = MatMul(%m3, %down) %z = Add(%r, %m4)
		%c = Gather(%z, %first) [axis=1] %y = Gemm(%c, %head, %b) out %y`,
		map[string]*ndarray.Array{"patch": waves(.05, 1, 128, 3, 8, 8), "class": waves(.3, 2, 1, 1, 128), "place": waves(.3, 3, 1, 65, 128), "g1": around1(.1, 4, 128), "h1": waves(.1, 5, 128), "qkv": waves(.1, 6, 128, 384), "proj": waves(.1, 7, 128, 128),
			"g2": around1(.1, 8, 128), "h2": waves(.1, 9, 128), "up": waves(.1, 10, 128, 512), "bu": waves(.1, 11, 512), "down": waves(.05, 12, 512, 128), "head": waves(.1, 13, 128, 10), "b": waves(.1, 14, 10)},
		train.CrossEntropy, []ndarray.Value{waves(1, 15, 8, 3, 64, 64), classes(10, 8)}}
	mask := ndarray.Must(ndarray.Float32, 64, 128)
	for i := range 64 {
		for j := i + 65; j < 128; j++ {
			mask.SetFloat(i*128+j, -1e30)
		}
	}
	benchModels["gpt"] = pytorchModel{`in %ids: int64[4,64] in %pastk: float32[4,4,64,32] in %pastv: float32[4,4,64,32] in %mask: float32[64,128] in %table: float32[1000,128] in %place: float32[64,128] in %g1: float32[128] in %h1: float32[128]
		in %qkv: float32[128,384] in %bq: float32[384] in %proj: float32[128,128] in %g2: float32[128] in %h2: float32[128] in %up: float32[128,512] in %down: float32[512,128] in %gf: float32[128] in %hf: float32[128]
		const %heads: int64[4] = [4,64,4,32] const %joined: int64[3] = [4,64,128] const %root: float32[] = 0.17677669
		%e1 = Gather(%table, %ids) %e = Add(%e1, %place) %n1 = LayerNormalization(%e, %g1, %h1) %p = MatMul(%n1, %qkv) %pb = Add(%p, %bq) %q1, %k1, %v1 = Split(%pb) [axis=2, num_outputs=3]
		%q2 = Reshape(%q1, %heads) %k2 = Reshape(%k1, %heads) %v2 = Reshape(%v1, %heads) %q = Transpose(%q2) [perm=[0,2,1,3]] %k3 = Transpose(%k2) [perm=[0,2,1,3]] %v3 = Transpose(%v2) [perm=[0,2,1,3]]
		%k = Concat(%pastk, %k3) [axis=2] %v = Concat(%pastv, %v3) [axis=2] %kt = Transpose(%k) [perm=[0,1,3,2]] %s1 = MatMul(%q, %kt) %s2 = Mul(%s1, %root) %s3 = Add(%s2, %mask) %s4 = Softmax(%s3)
		%a1 = MatMul(%s4, %v) %a2 = Transpose(%a1) [perm=[0,2,1,3]] %a3 = Reshape(%a2, %joined) %a4 = MatMul(%a3, %proj) %r = Add(%e, %a4)
		%n2 = LayerNormalization(%r, %g2, %h2) %m1 = MatMul(%n2, %up) %m2 = Gelu(%m1) [approximate="tanh"] %m3 = MatMul(%m2, %down) %z1 = Add(%r, %m3) %z = LayerNormalization(%z1, %gf, %hf)
		%tt = Transpose(%table) [perm=[1,0]] %l = MatMul(%z, %tt) %y = Transpose(%l) [perm=[0,2,1]] out %y`,
		map[string]*ndarray.Array{"table": waves(.1, 1, 1000, 128), "place": waves(.3, 2, 64, 128), "g1": around1(.1, 3, 128), "h1": waves(.1, 4, 128), "qkv": waves(.1, 5, 128, 384), "bq": waves(.1, 6, 384), "proj": waves(.1, 7, 128, 128),
			"g2": around1(.1, 8, 128), "h2": waves(.1, 9, 128), "up": waves(.1, 10, 128, 512), "down": waves(.05, 11, 512, 128), "gf": around1(.1, 12, 128), "hf": waves(.1, 13, 128)},
		train.CrossEntropy, []ndarray.Value{classes(1000, 4, 64), waves(.5, 14, 4, 4, 64, 32), waves(.5, 15, 4, 4, 64, 32), mask, classes(1000, 4, 64)}}
	benchModels["scan"] = pytorchModel{`in %x: float32[64,32,64] in %w: float32[64,128] in %r: float32[128,128] in %b: float32[128] in %out: float32[128,10] const %zero: float32[] = 0 const %s: int64[2] = [32,128]
		%h0 = Expand(%zero, %s) %h, %all = Scan(%h0, %x | %w, %r, %b) [num_scan_inputs=1] { body: graph "step" { in %h: float32[32,128] in %x: float32[32,64] in %w: float32[64,128] in %r: float32[128,128] in %b: float32[128]
			%p = MatMul(%x, %w) %q = MatMul(%h, %r) %pq = Add(%p, %q) %a = Add(%pq, %b) %hn = Tanh(%a) out %hn, %hn } }
		%y = MatMul(%all, %out) out %y`,
		map[string]*ndarray.Array{"w": waves(.1, 1, 64, 128), "r": waves(.05, 2, 128, 128), "b": waves(.2, 3, 128), "out": waves(.3, 4, 128, 10)},
		train.MeanSquaredError, []ndarray.Value{waves(1, 5, 64, 32, 64), waves(.5, 6, 64, 32, 10)}}
}
