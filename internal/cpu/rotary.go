package cpu

import (
	"fmt"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Operators of language models besides attention itself.

var rotaryOps = []entry{
	{op: "RotaryEmbedding", prepare: prepareRotary},
	{op: "SwiGLU", prepare: prepareSwiGLU},
	{op: "TensorScatter", prepare: prepareTensorScatter},
}

// rotary rotates pairs of elements of every head's vector by an angle that depends on
// the position:
//
//	(a, b) -> (a·cos − b·sin, a·sin + b·cos)
//
// Pairs are (i, i + half) or, interleaved, (2i, 2i + 1). Source:
// https://arxiv.org/abs/2104.09864
type rotary struct {
	x           heads
	batch       int
	half        int // pairs of a vector; elements behind them are copied
	positions   int // rows of the caches that position ids address; 0 without ids
	interleaved bool
}

func prepareRotary(p *prep) (ops.Kernel, error) {
	x, cos := p.in[0], p.in[1]
	for i, o := range p.in {
		if o.present && o.dt != ndarray.Float32 && !(i == 3 && o.dt == ndarray.Int64) {
			return nil, nil
		}
	}
	k := &rotary{batch: x.shape[0], interleaved: ops.Int(p.node, "interleaved") != 0}
	var ok bool
	if k.x, ok = headsOf(x.shape, int(ops.Int(p.node, "num_heads")), 0); !ok {
		return nil, nil
	}
	dim := int(ops.Int(p.node, "rotary_embedding_dim"))
	if dim == 0 {
		dim = k.x.size
	}
	k.half = dim / 2
	if dim < 2 || dim > k.x.size || dim%2 != 0 || p.in[2].n != cos.n || cos.shape[len(cos.shape)-1] != k.half {
		return nil, nil
	}
	if p.has(3) {
		if p.in[3].n != k.batch*k.x.seq || len(cos.shape) != 2 {
			return nil, nil
		}
		k.positions = cos.shape[0]
	} else if cos.n != k.batch*k.x.seq*k.half {
		return nil, nil
	}
	return k, nil
}

// Run checks the positions and rotates every vector; in place allowed.
func (k *rotary) Run(c *ops.Call) error {
	if k.positions > 0 {
		if err := checkPositions(elems[int64](c.In[3]), k.positions); err != nil {
			return err
		}
	}
	runSmall(c, k.batch*k.x.seq, 2*k.x.n*k.x.size, c.Threads, k)
	return nil
}

// checkPositions reports a position that has no row in tables of so many.
func checkPositions(ids []int64, rows int) error {
	for _, v := range ids {
		if v < 0 || v >= int64(rows) {
			return fmt.Errorf("position %d is outside a cache of %d positions", v, rows)
		}
	}
	return nil
}

// Choice says how it is computed.
func (k *rotary) Choice() backend.Choice {
	return backend.Choice{Algorithm: "vector by vector"}
}

func (k *rotary) tile(c *ops.Call, i, _ int) {
	b, s := i/k.x.seq, i%k.x.seq
	at := i
	if k.positions > 0 {
		at = int(elems[int64](c.In[3])[i])
	}
	cos, sin := f32(c.In[1])[at*k.half:][:k.half], f32(c.In[2])[at*k.half:][:k.half]
	x, y := f32(c.In[0]), f32(c.Out[0])
	for h := range k.x.n {
		first := k.x.at(b, h, s)
		rotate(y[first:][:k.x.size], x[first:][:k.x.size], cos, sin, k.interleaved)
	}
}

// rotate rotates the pairs of a vector; in place allowed.
func rotate(dst, src, cos, sin []float32, interleaved bool) {
	half := len(cos)
	copy(dst[2*half:], src[2*half:])
	p, q, step := 0, half, 1
	if interleaved {
		q, step = 1, 2
	}
	for j, co := range cos {
		u, v := src[p], src[q]
		dst[p], dst[q] = u*co-v*sin[j], u*sin[j]+v*co
		p, q = p+step, q+step
	}
}

// prepareSwiGLU is A·sigmoid(alpha·A)·B.
func prepareSwiGLU(p *prep) (ops.Kernel, error) {
	if !p.allF32() {
		return nil, nil
	}
	t := p.program()
	gate := t.Add(tile.Instr{Op: "Swish", DType: ndarray.Float32, Args: []tile.Ref{0}, Params: []float64{float64(ops.Float(p.node, "alpha"))}})
	t.Store(t.Add(tile.Instr{Op: "Mul", DType: ndarray.Float32, Args: []tile.Ref{gate, 1}}))
	return p.group(t)
}

// tensorScatter writes new entries into a cache along an axis, from a position of each
// batch entry on, and in a circular cache past the end to the front.
type tensorScatter struct {
	copy                 *copyTo
	outer, perBatch      int // rows before the axis; of one batch entry
	size, n, inner       int // of the cache, of the update; bytes behind the axis
	circular, positioned bool
}

func prepareTensorScatter(p *prep) (ops.Kernel, error) {
	past, up := p.in[0], p.in[1]
	axis, ok := p.axis(len(past.shape))
	if !ok || axis == 0 || up.dt != past.dt || len(up.shape) != len(past.shape) || up.shape[axis] > past.shape[axis] ||
		p.has(2) && (p.in[2].dt != ndarray.Int64 || p.in[2].n != past.shape[0]) {
		return nil, nil
	}
	for i, d := range up.shape {
		if i != axis && d != past.shape[i] {
			return nil, nil
		}
	}
	outer, size, inner := around(past.shape, axis)
	whole, err := newCopy(past)
	return &tensorScatter{copy: whole, outer: outer, perBatch: outer / past.shape[0], size: size, n: up.shape[axis],
		inner: inner * past.dt.Size(), circular: ops.Str(p.node, "mode") == "circular", positioned: p.has(2)}, err
}

// Run copies the cache, unless it is written in place, and then the update.
func (k *tensorScatter) Run(c *ops.Call) error {
	var first []int64
	if k.positioned {
		first = elems[int64](c.In[2])
		for _, v := range first {
			if v < 0 && !k.circular || !k.circular && v > int64(k.size-k.n) || k.circular && v%int64(k.size) < 0 {
				return fmt.Errorf("write index %d puts %d entries outside of a cache of %d", v, k.n, k.size)
			}
		}
	}
	if err := k.copy.Run(c); err != nil {
		return err
	}
	dst, src := arrayOf(c.Out[0]).Data, arrayOf(c.In[1]).Data
	for o := range k.outer {
		at := 0
		if first != nil {
			at = int(first[o/k.perBatch] % int64(k.size))
		}
		head := min(k.n, k.size-at) // entries up to the end
		row, from := dst[o*k.size*k.inner:][:k.size*k.inner], src[o*k.n*k.inner:][:k.n*k.inner]
		copyLong(c, row[at*k.inner:], from[:head*k.inner])
		copyLong(c, row, from[head*k.inner:])
	}
	return nil
}

// Choice says how it is computed.
func (k *tensorScatter) Choice() backend.Choice {
	return backend.Choice{Algorithm: "copies of slices"}
}

// copyLong copies bytes, as long as the call is not to end.
func copyLong(c *ops.Call, dst, src []byte) {
	const piece = 1 << 20
	for from := 0; from < len(src) && !c.Ended(); from += piece {
		copy(dst[from:], src[from:min(from+piece, len(src))])
	}
}
