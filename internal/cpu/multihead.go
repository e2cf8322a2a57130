package cpu

import (
	"slices"

	"github.com/berth-onnx/berth/backend"
	"github.com/berth-onnx/berth/internal/cpu/kern/attend"
	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// MultiHeadAttention of the com.microsoft domain as Attention, whose operands are in another
// order:
//
//	MultiHeadAttention  0 query  1 key  2 value  3 bias  4 key_padding_mask  5 attention_bias  6, 7 past
//	Attention           0 Q      1 K    2 V                                  3 attn_mask       4, 5 past
//
// The bias is added to copies of query, key and value; a mask of keys becomes numbers that
// are added to their scores.

var multiHeadOps = []entry{{domain: microsoft, op: "MultiHeadAttention", prepare: prepareMultiHead}}

// multiHead is an attention with a bias, or a mask of keys.
type multiHead struct {
	attention ops.Kernel
	shapes    [3][]int // of query, key and value
	biased    [3]int   // workspace of their sums with the bias
	bias      bool
	filter    float32 // what is added to the score of a masked key
	keys      keyMask
	mask      []int // shape of the numbers made of it
	maskAt    int   // workspace of them
	calls     innerCalls
}

// keyMask is a form of key_padding_mask.
type keyMask uint8

const (
	noKeyMask  keyMask = iota
	keyLengths         // [B]: how many keys there are
	keyFlags           // [B, T]: 0 for a key that is none
)

func prepareMultiHead(p *prep) (ops.Kernel, error) {
	if !p.multiHeadFits() {
		return nil, nil
	}
	heads := int(ops.Int(p.node, "num_heads"))
	k := &multiHead{bias: p.has(3), filter: ops.Float(p.node, "mask_filter_value")}
	q := *p
	q.in, q.out = make([]operand, 6), slices.Clone(p.out[:min(3, len(p.out))])
	for i, from := range multiHeadFrom {
		if p.has(from) {
			q.in[i] = p.in[from]
		} else if i == 1 || i == 2 {
			q.in[i] = q.in[i-1]
		}
	}
	if !k.readMask(p, &q) {
		return nil, nil
	}
	for i := range k.shapes {
		if k.shapes[i] = q.in[i].shape; k.bias {
			k.biased[i] = q.workspace(4 * p.in[i].n)
		}
	}
	shape := q.in[0].shape
	queries := shape[1]
	if len(shape) == 4 {
		queries = shape[2]
	}
	a := &attention{spec: attend.Spec{Causal: ops.Int(p.node, "unidirectional") != 0 && queries > 1, Left: -1, Right: -1}}
	var err error
	k.attention, err = a.prepare(&q, heads, heads, func(standard float32) float32 {
		if s := ops.Float(p.node, "scale"); s != 0 {
			return s
		}
		return standard
	})
	if k.attention == nil || err != nil {
		return nil, err
	}
	p.scratch = q.scratch
	return k, nil
}

// multiHeadFrom are the operands of MultiHeadAttention that become those of Attention. Keys and values that are absent
// are packed into the operand before them.
var multiHeadFrom = [6]int{0, 1, 2, 5, 6, 7}

// multiHeadFits reports that there is code for the variant: float32, merged heads where there is a bias, no result
// with the scores.
func (p *prep) multiHeadFits() bool {
	for i, x := range p.in {
		if x.present && x.dt != ndarray.Float32 && i != 4 {
			return false
		}
	}
	if p.has(8) || p.has(9) || p.has(6) != p.has(7) || !p.wants(0) || p.wants(3) || p.has(2) && !p.has(1) {
		return false
	}
	columns := 0
	for i := range 3 {
		switch {
		case !p.has(i): // packed into the operand before it
			if p.has(3) || i > 0 && p.has(i-1) && (len(p.in[i-1].shape) != 5 || p.in[i-1].shape[3] != 4-i) {
				return false
			}
			continue
		case len(p.in[i].shape) == 5 && !p.has(3) && i < 2 && !p.has(i+1):
		case len(p.in[i].shape) != 3 && (len(p.in[i].shape) != 4 || p.has(3)):
			return false
		}
		columns += p.in[i].shape[2]
	}
	return (!p.has(3) || p.in[3].n == columns) && (!p.has(6) || len(p.in[6].shape) == 4)
}

// readMask reads the mask of keys, and puts the numbers made of it in the place of operand 3 of
// the attention; false if there is no code for it.
func (k *multiHead) readMask(p, q *prep) bool {
	if !p.has(4) {
		return true
	}
	m, batch, past := p.in[4], p.in[0].shape[0], 0
	if p.has(6) {
		past = p.in[6].shape[2]
	}
	keys := past
	if s := q.in[1].shape; len(s) == 4 {
		keys += s[2]
	} else {
		keys += s[1]
	}
	switch {
	case m.dt != ndarray.Int32 || p.has(5):
		return false
	case slices.Equal(m.shape, []int{batch}):
		k.keys = keyLengths
	case slices.Equal(m.shape, []int{batch, keys}):
		k.keys = keyFlags
	default:
		return false
	}
	k.mask = []int{batch, 1, 1, keys}
	k.maskAt = q.workspace(4 * batch * keys)
	q.in[3] = operand{present: true, dt: ndarray.Float32, shape: k.mask, n: batch * keys}
	return true
}

// Run prepares the operands of the attention.
func (k *multiHead) Run(c *ops.Call) error {
	r := k.calls.take(c, 4)
	defer k.calls.release(r)
	r.out = append(r.out, c.Out[:min(3, len(c.Out))]...)
	for i, from := range multiHeadFrom {
		var v ndarray.Value
		if from < len(c.In) {
			v = c.In[from]
		}
		if v == nil && (i == 1 || i == 2) {
			v = r.in[i-1]
		}
		r.in = append(r.in, v)
	}
	if k.bias {
		k.addBias(c, r)
	}
	if k.keys != noKeyMask {
		a := r.array(c, k.maskAt, sizeOf(k.mask), k.mask)
		k.numbers(ndarray.Slice[float32](a), elems[int32](c.In[4]))
		r.in[3] = a
	}
	return r.run(k.attention)
}

// Choice is that of the attention.
func (k *multiHead) Choice() backend.Choice {
	return backend.ChoiceOf(k.attention)
}

// addBias replaces query, key and value by their sums with the bias.
func (k *multiHead) addBias(c *ops.Call, r *innerCall) {
	bias := f32(c.In[3])
	for i, shape := range k.shapes {
		n, cols := sizeOf(shape), shape[2]
		a := r.array(c, k.biased[i], n, shape)
		vec.BinaryRows(simd.Add, ndarray.Slice[float32](a), f32(c.In[i]), vec.Full, bias[:cols], vec.Row, n/cols, cols)
		r.in[i], bias = a, bias[cols:]
	}
}

// numbers makes what is added to the scores of a mask.
func (k *multiHead) numbers(dst []float32, mask []int32) {
	keys := k.mask[3]
	for i := range dst {
		masked := k.keys == keyFlags && mask[i] <= 0 || k.keys == keyLengths && i%keys >= int(mask[i/keys])
		if dst[i] = 0; masked {
			dst[i] = k.filter
		}
	}
}
