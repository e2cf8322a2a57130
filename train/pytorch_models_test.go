package train_test

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/train"
)

// Models of further kinds, as exporters write them; golden.py has the same in PyTorch.
func init() {
	pytorchModels["gru"] = pytorchModel{`in %x: float32[5,3,2] in %w: float32[1,12,2] in %r: float32[1,12,4] in %b: float32[1,24] in %out: float32[4,2] const %axes: int64[1] = [0]
		_, %h = GRU(%x, %w, %r, %b) [hidden_size=4, linear_before_reset=1] %s = Squeeze(%h, %axes) %y = MatMul(%s, %out) out %y`,
		map[string]*ndarray.Array{"w": waves(.5, 1, 1, 12, 2), "r": waves(.4, 2, 1, 12, 4), "b": waves(.2, 3, 1, 24), "out": waves(.5, 4, 4, 2)},
		train.MeanSquaredError, []ndarray.Value{waves(1, 5, 5, 3, 2), waves(.5, 6, 3, 2)}}
	labels := make([]int64, 2*8*8)
	for i := range labels {
		labels[i] = int64(i*7/3) % 2
	}
	pytorchModels["unet"] = pytorchModel{`in %x: float32[2,1,8,8] in %k1: float32[4,1,3,3] in %c1: float32[4] in %k2: float32[8,4,3,3] in %s: float32[8] in %o: float32[8] in %up: float32[8,4,2,2] in %cu: float32[4]
		in %k3: float32[4,8,3,3] in %k4: float32[2,4,1,1] in %c4: float32[2]
		%a1 = Conv(%x, %k1, %c1) [pads=[1,1,1,1]] %a2 = Relu(%a1) %p = MaxPool(%a2) [kernel_shape=[2,2], strides=[2,2]]
		%b1 = Conv(%p, %k2) [pads=[1,1,1,1]] %b2 = InstanceNormalization(%b1, %s, %o) %b3 = Relu(%b2) %u = ConvTranspose(%b3, %up, %cu) [strides=[2,2]]
		%c = Concat(%u, %a2) [axis=1] %d1 = Conv(%c, %k3) [pads=[1,1,1,1]] %d2 = Relu(%d1) %y = Conv(%d2, %k4, %c4) out %y`,
		map[string]*ndarray.Array{"k1": waves(.4, 1, 4, 1, 3, 3), "c1": waves(.1, 2, 4), "k2": waves(.3, 3, 8, 4, 3, 3), "s": around1(.2, 4, 8), "o": waves(.1, 5, 8), "up": waves(.3, 6, 8, 4, 2, 2), "cu": waves(.1, 7, 4),
			"k3": waves(.2, 8, 4, 8, 3, 3), "k4": waves(.4, 9, 2, 4, 1, 1), "c4": waves(.1, 10, 2)},
		train.CrossEntropy, []ndarray.Value{waves(1, 11, 2, 1, 8, 8), ndarray.Of(labels, 2, 8, 8)}}
	pytorchModels["vit"] = pytorchModel{`in %x: float32[2,3,8,8] in %patch: float32[8,3,4,4] in %class: float32[1,1,8] in %place: float32[1,5,8] in %g1: float32[8] in %h1: float32[8] in %qkv: float32[8,24] in %proj: float32[8,8]
		in %g2: float32[8] in %h2: float32[8] in %up: float32[8,16] in %bu: float32[16] in %down: float32[16,8] in %head: float32[8,3] in %b: float32[3]
		const %flat: int64[3] = [2,8,4] const %lead: int64[3] = [2,1,8] const %heads: int64[5] = [2,5,3,2,4] const %joined: int64[3] = [2,5,8] const %first: int64[] = 0 const %root: float32[] = 0.5
		const %q0: int64[] = 0 const %q1: int64[] = 1 const %q2: int64[] = 2
		%e1 = Conv(%x, %patch) [strides=[4,4]] %e2 = Reshape(%e1, %flat) %e3 = Transpose(%e2) [perm=[0,2,1]] %ce = Expand(%class, %lead) %e4 = Concat(%ce, %e3) [axis=1] %e = Add(%e4, %place)
		%n1 = LayerNormalization(%e, %g1, %h1) %p = MatMul(%n1, %qkv) %p1 = Reshape(%p, %heads) %p2 = Transpose(%p1) [perm=[2,0,3,1,4]] %q = Gather(%p2, %q0) %k = Gather(%p2, %q1) %v = Gather(%p2, %q2)
		%kt = Transpose(%k) [perm=[0,1,3,2]] %s1 = MatMul(%q, %kt) %s2 = Mul(%s1, %root) %s3 = Softmax(%s2) %a1 = MatMul(%s3, %v) %a2 = Transpose(%a1) [perm=[0,2,1,3]] %a3 = Reshape(%a2, %joined)
		%a4 = MatMul(%a3, %proj) %r = Add(%e, %a4) %n2 = LayerNormalization(%r, %g2, %h2) %m1 = MatMul(%n2, %up) %m2 = Add(%m1, %bu) %m3 = Gelu(%m2) %m4 = MatMul(%m3, %down) %z = Add(%r, %m4)
		%c = Gather(%z, %first) [axis=1] %y = Gemm(%c, %head, %b) out %y`,
		map[string]*ndarray.Array{"patch": waves(.2, 1, 8, 3, 4, 4), "class": waves(.3, 2, 1, 1, 8), "place": waves(.3, 3, 1, 5, 8), "g1": around1(.1, 4, 8), "h1": waves(.1, 5, 8), "qkv": waves(.4, 6, 8, 24), "proj": waves(.3, 7, 8, 8),
			"g2": around1(.1, 8, 8), "h2": waves(.1, 9, 8), "up": waves(.4, 10, 8, 16), "bu": waves(.1, 11, 16), "down": waves(.3, 12, 16, 8), "head": waves(.4, 13, 8, 3), "b": waves(.1, 14, 3)},
		train.CrossEntropy, []ndarray.Value{waves(1, 15, 2, 3, 8, 8), ndarray.Of([]int64{2, 0}, 2)}}
	least := math.Inf(-1)
	mask := ndarray.Must(ndarray.Float32, 4, 7)
	for i := range 4 {
		for j := i + 4; j < 7; j++ {
			mask.SetFloat(i*7+j, least)
		}
	}
	pytorchModels["gpt"] = pytorchModel{`in %ids: int64[2,4] in %pastk: float32[2,2,3,4] in %pastv: float32[2,2,3,4] in %mask: float32[4,7] in %table: float32[11,8] in %place: float32[4,8] in %g1: float32[8] in %h1: float32[8]
		in %qkv: float32[8,24] in %bq: float32[24] in %proj: float32[8,8] in %g2: float32[8] in %h2: float32[8] in %up: float32[8,16] in %down: float32[16,8] in %gf: float32[8] in %hf: float32[8]
		const %heads: int64[4] = [2,4,2,4] const %joined: int64[3] = [2,4,8] const %root: float32[] = 0.5
		%e1 = Gather(%table, %ids) %e = Add(%e1, %place) %n1 = LayerNormalization(%e, %g1, %h1) %p = MatMul(%n1, %qkv) %pb = Add(%p, %bq) %q1, %k1, %v1 = Split(%pb) [axis=2, num_outputs=3]
		%q2 = Reshape(%q1, %heads) %k2 = Reshape(%k1, %heads) %v2 = Reshape(%v1, %heads) %q = Transpose(%q2) [perm=[0,2,1,3]] %k3 = Transpose(%k2) [perm=[0,2,1,3]] %v3 = Transpose(%v2) [perm=[0,2,1,3]]
		%k = Concat(%pastk, %k3) [axis=2] %v = Concat(%pastv, %v3) [axis=2] %kt = Transpose(%k) [perm=[0,1,3,2]] %s1 = MatMul(%q, %kt) %s2 = Mul(%s1, %root) %s3 = Add(%s2, %mask) %s4 = Softmax(%s3)
		%a1 = MatMul(%s4, %v) %a2 = Transpose(%a1) [perm=[0,2,1,3]] %a3 = Reshape(%a2, %joined) %a4 = MatMul(%a3, %proj) %r = Add(%e, %a4)
		%n2 = LayerNormalization(%r, %g2, %h2) %m1 = MatMul(%n2, %up) %m2 = Gelu(%m1) [approximate="tanh"] %m3 = MatMul(%m2, %down) %z1 = Add(%r, %m3) %z = LayerNormalization(%z1, %gf, %hf)
		%tt = Transpose(%table) [perm=[1,0]] %l = MatMul(%z, %tt) %y = Transpose(%l) [perm=[0,2,1]] out %y`,
		map[string]*ndarray.Array{"table": waves(.5, 1, 11, 8), "place": waves(.3, 2, 4, 8), "g1": around1(.1, 3, 8), "h1": waves(.1, 4, 8), "qkv": waves(.4, 5, 8, 24), "bq": waves(.1, 6, 24), "proj": waves(.3, 7, 8, 8),
			"g2": around1(.1, 8, 8), "h2": waves(.1, 9, 8), "up": waves(.4, 10, 8, 16), "down": waves(.3, 11, 16, 8), "gf": around1(.1, 12, 8), "hf": waves(.1, 13, 8)},
		train.CrossEntropy, []ndarray.Value{ndarray.Of([]int64{1, 4, 2, 4, 3, 5, 9, 8}, 2, 4), waves(.5, 14, 2, 2, 3, 4), waves(.5, 15, 2, 2, 3, 4), mask, ndarray.Of([]int64{4, 2, 4, 10, 5, 9, 8, 7}, 2, 4)}}
	pytorchModels["scan"] = pytorchModel{`in %x: float32[6,3,2] in %w: float32[2,4] in %r: float32[4,4] in %b: float32[4] in %out: float32[4,2] const %zero: float32[] = 0 const %s: int64[2] = [3,4]
		%h0 = Expand(%zero, %s) %h, %all = Scan(%h0, %x | %w, %r, %b) [num_scan_inputs=1] { body: graph "step" { in %h: float32[3,4] in %x: float32[3,2] in %w: float32[2,4] in %r: float32[4,4] in %b: float32[4]
			%p = MatMul(%x, %w) %q = MatMul(%h, %r) %pq = Add(%p, %q) %a = Add(%pq, %b) %hn = Tanh(%a) out %hn, %hn } }
		%y = MatMul(%all, %out) out %y`,
		map[string]*ndarray.Array{"w": waves(.5, 1, 2, 4), "r": waves(.4, 2, 4, 4), "b": waves(.2, 3, 4), "out": waves(.5, 4, 4, 2)},
		train.MeanSquaredError, []ndarray.Value{waves(1, 5, 6, 3, 2), waves(.5, 6, 6, 3, 2)}}
}
