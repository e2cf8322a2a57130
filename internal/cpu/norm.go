package cpu

import (
	"math"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/epilogue"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ops"
)

// Normalizations over float32.

var normOps = []entry{
	{op: "BatchNormalization", prepare: prepareBatchNorm},
	{domain: ops.Private, op: "BatchNormalization", prepare: prepareBatchNorm},
	{op: "InstanceNormalization", prepare: prepareInstanceNorm},
	{op: "GroupNormalization", prepare: prepareGroupNorm},
	{op: "LayerNormalization", prepare: prepareLayerNorm},
	{op: "RMSNormalization", prepare: prepareRMSNorm},
	{op: "SimplifiedLayerNormalization", prepare: prepareRMSNorm},
	{domain: microsoft, op: "SimplifiedLayerNormalization", prepare: prepareRMSNorm},
	{op: "LRN", prepare: prepareLRN},
}

// batchNorm is x·scale[c] + shift[c], where
//
//	scale = gamma / √(variance + ε)     shift = beta − mean·scale
//
// worked out beforehand if all four are constants.
type batchNorm struct {
	n, channels, spatial int
	scale, shift         []float32 // nil: from operands 1 to 4
	eps                  float32
	ws                   int
	strict               bool       // computed as it is written
	then                 ops.Kernel // the activation, a pass of its own over plain images; nil if there is none
}

func prepareBatchNorm(p *prep) (ops.Kernel, error) {
	x := p.in[0].shape
	then, ok := epilogue.Activation(p.node)
	if !ok || !p.allF32() || len(x) == 0 {
		return nil, nil
	}
	if ops.Int(p.node, "training_mode") != 0 && then.Act == simd.Identity {
		return p.trainedNorm(x), nil
	}
	if ops.Int(p.node, "training_mode") != 0 || p.wants(1) || p.wants(2) {
		return nil, nil
	}
	k := &batchNorm{n: x[0], channels: 1, spatial: 1, eps: ops.Float(p.node, "epsilon")}
	if then.Act != simd.Identity {
		k.then = elementwise(p.out[0].n, TileElems, func(c *ops.Call, lo, hi int) {
			y := f32(c.Out[0])[lo:hi]
			vec.Unary(then.Act, y, y, then.P0, then.P1)
		})
	}
	if len(x) > 1 {
		k.channels, k.spatial = x[1], sizeOf(x[2:])
	}
	var stats [4][]float32
	known := true
	for i := range stats {
		if p.in[i+1].n != k.channels {
			return nil, nil
		}
		v, err := p.floats(i + 1)
		if err != nil {
			return nil, err
		}
		stats[i] = v
		known = known && v != nil
	}
	if k.strict = p.options.Strict; k.strict || !known {
		k.ws = p.workspace(2 * 4 * k.channels)
		return k, nil
	}
	k.scale, k.shift = make([]float32, k.channels), make([]float32, k.channels)
	if !k.fold(k.scale, k.shift, stats[0], stats[1], stats[2], stats[3]) {
		return nil, nil
	}
	for i := range stats {
		p.absorb(i+1, 2*k.channels) // two vectors in the place of four
	}
	return k, nil
}

// fold works out scale and shift. It reports whether all are finite: x·∞ − mean·∞ would be NaN
// where (x − mean)·∞ is not.
func (k *batchNorm) fold(scale, shift, gamma, beta, mean, variance []float32) bool {
	finite := true
	for i := range scale {
		s := float64(gamma[i]) / math.Sqrt(float64(variance[i])+float64(k.eps))
		scale[i], shift[i] = float32(s), float32(float64(beta[i])-float64(mean[i])*s)
		finite = finite && scale[i]-scale[i] == 0 && shift[i]-shift[i] == 0
	}
	return finite
}

// plainly computes gamma·(x − mean)/√(variance + ε) + beta as it is written.
func (k *batchNorm) plainly(c *ops.Call, dst, src, gamma, beta, mean, variance []float32) {
	for i := range k.n * k.channels {
		ch := i % k.channels
		scale := float32(float64(gamma[ch]) / math.Sqrt(float64(variance[ch])+float64(k.eps)))
		pieces(c, k.spatial, func(lo, hi int) {
			for j := i*k.spatial + lo; j < i*k.spatial+hi; j++ {
				dst[j] = (src[j]-mean[ch])*scale + beta[ch]
			}
		})
	}
}

// Run normalizes.
func (k *batchNorm) Run(c *ops.Call) error {
	scale, shift := k.scale, k.shift
	if scale == nil {
		both := scratchOf[float32](c, k.ws, 2*k.channels)
		scale, shift = both[:k.channels], both[k.channels:]
		gamma, beta, mean, variance := f32(c.In[1]), f32(c.In[2]), f32(c.In[3]), f32(c.In[4])
		if k.strict || !k.fold(scale, shift, gamma, beta, mean, variance) {
			k.plainly(c, f32(c.Out[0]), f32(c.In[0]), gamma, beta, mean, variance)
			return k.activate(c)
		}
	}
	vec.BatchNorm(c.Done(), f32(c.Out[0]), f32(c.In[0]), scale, shift, k.n, k.channels, k.spatial, c.Threads)
	return k.activate(c)
}

// Choice says how it is computed.
func (k *batchNorm) Choice() backend.Choice {
	switch {
	case k.strict:
		return backend.Choice{Algorithm: "as it is written", Reason: "strict accuracy"}
	case k.scale == nil:
		return backend.Choice{Algorithm: "scale and shift", Reason: "worked out in every run: statistics are no constants"}
	}
	return backend.Choice{Algorithm: "scale and shift", Reason: "worked out beforehand from constants"}
}

// activate applies the activation to the result.
func (k *batchNorm) activate(c *ops.Call) error {
	if k.then == nil {
		return nil
	}
	return k.then.Run(c)
}

// trainedNorm is batch normalization by mean and variance of its operand. A tile is a channel: its rows, one in each image, are
// summed, centered in the place of the result while their squares are summed, and scaled there. Sums are of float32 within a
// block, of float64 over blocks.
type trainedNorm struct {
	n, channels, spatial int
	eps, momentum, count float64 // count: elements of a channel
}

// normBlock is how many elements are summed in float32.
const normBlock = 4096

// trainedNorm is the kernel for an operand of a shape, nil where statistics are not of its channels.
func (p *prep) trainedNorm(x []int) ops.Kernel {
	k := &trainedNorm{n: x[0], channels: 1, spatial: 1, eps: float64(ops.Float(p.node, "epsilon")), momentum: float64(ops.Float(p.node, "momentum"))}
	if len(x) > 1 {
		k.channels, k.spatial = x[1], sizeOf(x[2:])
	}
	for i := 1; i <= 4; i++ {
		if p.in[i].n != k.channels {
			return nil
		}
	}
	k.count = float64(k.n) * float64(k.spatial)
	return smallTiles(k.channels, 4*k.n*k.spatial, math.MaxInt, k)
}

func (k *trainedNorm) tile(c *ops.Call, ch, _ int) {
	x, scale, shift := f32(c.In[0]), float32(1), float32(0)
	var moments [2]float64 // mean and variance
	for pass := range 3 {  // sum; center, sum of squares; scale
		for i := range k.n {
			row := (i*k.channels + ch) * k.spatial
			for lo, end := row, row+k.spatial; lo < end && (lo == row || !c.Ended()); lo += normBlock {
				block := x[lo:min(lo+normBlock, end)]
				if pass > 0 {
					y := f32(c.Out[0])[lo : lo+len(block)]
					vec.ScaleShift(y, block, scale, shift)
					block = y
				}
				if pass < 2 {
					moments[pass] += momentOf(block, pass == 1)
				}
			}
		}
		switch pass {
		case 0:
			moments[0] /= k.count
			shift = -float32(moments[0])
		case 1:
			moments[1] /= k.count
			scale, shift = float32(float64(f32(c.In[1])[ch])/math.Sqrt(moments[1]+k.eps)), f32(c.In[2])[ch]
			x = f32(c.Out[0])
		}
	}
	for i, now := range moments {
		if running := optF32(c.Out, 1+i); running != nil {
			running[ch] = float32(float64(f32(c.In[3+i])[ch])*k.momentum + now*(1-k.momentum))
		}
	}
}

// Choice says how it is computed.
func (k *trainedNorm) Choice() backend.Choice {
	return backend.Choice{Algorithm: "channel by channel", Reason: "statistics are those of the batch"}
}

// momentOf is the sum of a block, or of its squares.
func momentOf(x []float32, squares bool) (sum float64) {
	fast := vec.Sum(x)
	if squares {
		fast = vec.Dot(x, x)
	}
	if sum = float64(fast); sum-sum == 0 {
		return sum
	}
	sum = 0 // float32 may have overflowed
	for _, e := range x {
		v := float64(e)
		if squares {
			v *= v
		}
		sum += v
	}
	return sum
}

// groupNorm standardizes groups of channels, then scales every channel.
type groupNorm struct {
	channels int // of one image
	per      int // channels of a group
	spatial  int
	eps      float32
}

func prepareInstanceNorm(p *prep) (ops.Kernel, error) {
	if len(p.in[0].shape) < 2 {
		return nil, nil
	}
	return newGroupNorm(p, p.in[0].shape[1])
}

func prepareGroupNorm(p *prep) (ops.Kernel, error) {
	if ops.Int(p.node, "stash_type") != 1 {
		return nil, nil
	}
	return newGroupNorm(p, int(ops.Int(p.node, "num_groups")))
}

func newGroupNorm(p *prep, groups int) (ops.Kernel, error) {
	x := p.in[0].shape
	if !p.allF32() || len(x) < 2 || groups < 1 || x[1]%groups != 0 || p.in[1].n != x[1] || p.in[2].n != x[1] {
		return nil, nil
	}
	k := &groupNorm{x[1], x[1] / groups, sizeOf(x[2:]), ops.Float(p.node, "epsilon")}
	return smallTiles(x[0]*groups, k.per*k.spatial, math.MaxInt, k), nil
}

func (k *groupNorm) tile(c *ops.Call, i, _ int) {
	size := k.per * k.spatial
	dst, src := f32(c.Out[0])[i*size:(i+1)*size], f32(c.In[0])[i*size:(i+1)*size]
	vec.LayerNorm(c.Done(), dst, src, nil, nil, 1, size, k.eps, nil, nil, 1)
	first := i * k.per % k.channels
	scale, bias := f32(c.In[1])[first:], f32(c.In[2])[first:]
	for ch := range k.per {
		row := dst[ch*k.spatial : (ch+1)*k.spatial]
		pieces(c, len(row), func(lo, hi int) { vec.ScaleShift(row[lo:hi], row[lo:hi], scale[ch], bias[ch]) })
	}
}

// Choice says how it is computed.
func (k *groupNorm) Choice() backend.Choice {
	return backend.Choice{Algorithm: "group by group", Reason: "sums, squares and scaling while a group is in the cache"}
}

// layerNorm standardizes rows, with or without the mean.
type layerNorm struct {
	rows, cols int
	eps        float32
	center     bool
}

// suffix returns rows and columns of a normalization over the dimensions from
// axis on; ok is false if the scale, operand 1, does not cover them exactly.
func (p *prep) suffix() (rows, cols int, ok bool) {
	x := p.in[0].shape
	axis, ok := p.axis(len(x))
	if !ok || ops.Int(p.node, "stash_type") != 1 {
		return 0, 0, false
	}
	rows, cols = sizeOf(x[:axis]), sizeOf(x[axis:])
	return rows, cols, p.in[1].n == cols && endsWith(x, p.in[1].shape)
}

// endsWith reports that the last dimensions of a shape are those of another,
// leading ones of which do not count.
func endsWith(shape, end []int) bool {
	for len(end) > 0 && end[0] == 1 {
		end = end[1:]
	}
	for i := range end {
		if len(end) > len(shape) || shape[len(shape)-len(end)+i] != end[i] {
			return false
		}
	}
	return true
}

func prepareLayerNorm(p *prep) (ops.Kernel, error) {
	rows, cols, ok := p.suffix()
	if !ok || !p.allF32() || p.has(2) && (p.in[2].n != cols || !endsWith(p.in[0].shape, p.in[2].shape)) {
		return nil, nil
	}
	return &layerNorm{rows, cols, ops.Float(p.node, "epsilon"), true}, nil
}

func prepareRMSNorm(p *prep) (ops.Kernel, error) {
	rows, cols, ok := p.suffix()
	if !ok || !p.allF32() || p.wants(1) {
		return nil, nil
	}
	return &layerNorm{rows, cols, ops.Float(p.node, "epsilon"), false}, nil
}

// Run normalizes all rows.
func (k *layerNorm) Run(c *ops.Call) error {
	dst, src, gamma := f32(c.Out[0]), f32(c.In[0]), f32(c.In[1])
	if !k.center {
		vec.RMSNorm(c.Done(), dst, src, gamma, k.rows, k.cols, k.eps, c.Threads)
		return nil
	}
	beta, mean, inv := optF32(c.In, 2), optF32(c.Out, 1), optF32(c.Out, 2)
	vec.LayerNorm(c.Done(), dst, src, gamma, beta, k.rows, k.cols, k.eps, mean, inv, c.Threads)
	return nil
}

// Choice says how it is computed.
func (k *layerNorm) Choice() backend.Choice {
	return backend.Choice{Algorithm: "row by row", Reason: "sums, squares and scaling while a row is in the cache"}
}

// lrn is local response normalization.
type lrn struct {
	s           vec.LRNSpec
	ws, threads int
}

func prepareLRN(p *prep) (ops.Kernel, error) {
	x, size := p.in[0].shape, int(ops.Int(p.node, "size"))
	if !p.allF32() || len(x) < 2 || size < 1 || size > vec.LRNLargest {
		return nil, nil
	}
	k := &lrn{s: vec.LRNSpec{
		Batch: x[0], Channels: x[1], Spatial: sizeOf(x[2:]), Size: size,
		Alpha: ops.Float(p.node, "alpha"), Beta: ops.Float(p.node, "beta"), Bias: ops.Float(p.node, "bias"),
	}, threads: p.threads}
	k.ws = p.workspace(k.s.Workspace(p.threads))
	return k, nil
}

// Run normalizes.
func (k *lrn) Run(c *ops.Call) error {
	return vec.LRN(c.Done(), k.s, f32(c.Out[0]), f32(c.In[0]), c.Scratch[k.ws:], min(k.threads, c.Threads))
}

// Choice says how it is computed.
func (k *lrn) Choice() backend.Choice {
	return backend.Choice{Algorithm: "running sums of squares over channels"}
}
