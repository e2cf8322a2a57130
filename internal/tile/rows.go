package tile

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
)

// Rows in the interpreter: reductions and normalizations.

// reduce makes one element of every row of argument 0.
func (m *machine) reduce(x *Instr) (*ndarray.Array, error) {
	out, err := m.array(x.DType, m.rowShape)
	if err != nil {
		return nil, err
	}
	src, cols, err := m.full(x.Args[0])
	if err != nil {
		return nil, err
	}
	c := cell{x: x, out: out}
	for c.i = range out.Len() {
		if m.over {
			return nil, m.ctx.Err()
		}
		if x.DType.IsFloat() {
			c.setFloat(m.reducedFloat(x.Op, m.row(src, c.i, cols)))
			continue
		}
		acc := src.Int(c.i * cols)
		for j := 1; j < cols && !m.ended(c.i*cols+j); j++ {
			acc = binaryInt(steps[x.Op], x.DType, acc, src.Int(c.i*cols+j))
		}
		out.SetInt(c.i, acc)
	}
	return out, nil
}

// row is row r of a value.
func (m *machine) row(src *ndarray.Array, r, cols int) []float64 {
	row := make([]float64, cols)
	for j := range row {
		if m.ended(r*cols + j) {
			break
		}
		row[j] = src.Float(r*cols + j)
	}
	return row
}

// steps are the operations that reductions of integers repeat.
var steps = map[Op]Op{"ReduceSum": "Add", "ReduceProd": "Mul", "ReduceMax": "Max", "ReduceMin": "Min"}

// full is a value written out with an element for every index, and the length of a row.
func (m *machine) full(v Ref) (a *ndarray.Array, cols int, err error) {
	cols = 1
	for _, d := range m.shape[len(m.shape)-m.p.Inner:] {
		cols *= d
	}
	x := m.values[v]
	at, err := m.positions(x.Shape, m.shape)
	if err != nil {
		return nil, 0, err
	}
	size := x.DType.Size()
	if a, err = m.array(x.DType, m.shape); err != nil {
		return nil, 0, err
	}
	for i, j := range at {
		if m.ended(i) {
			return nil, 0, m.ctx.Err()
		}
		copy(a.Data[i*size:(i+1)*size], x.Data[j*size:])
	}
	return a, cols, nil
}

func (m *machine) reducedFloat(o Op, row []float64) float64 {
	sum := func(f func(float64) float64) (s float64) {
		for i, v := range row {
			if m.ended(i) {
				break
			}
			s += f(v)
		}
		return s
	}
	plain := func(v float64) float64 { return v }
	square := func(v float64) float64 { return v * v }
	switch o {
	case "ReduceSum":
		return sum(plain)
	case "ReduceMean":
		return sum(plain) / float64(len(row))
	case "ReduceL1":
		return sum(math.Abs)
	case "ReduceL2":
		return math.Sqrt(sum(square))
	case "ReduceSumSquare":
		return sum(square)
	case "ReduceLogSum":
		return math.Log(sum(plain))
	case "ReduceLogSumExp":
		top := folded("Max", row)
		if math.IsInf(top, 0) || top != top {
			return top
		}
		return top + math.Log(sum(func(v float64) float64 { return math.Exp(v - top) }))
	case "ReduceProd":
		return folded("Mul", row)
	}
	return folded(steps[o], row)
}

func folded(o Op, row []float64) float64 {
	acc := row[0]
	for _, v := range row[1:] {
		acc = binaryFloat(o, acc, v)
	}
	return acc
}

// normalize makes a row of every row of argument 0; scale and bias are rows, too.
func (m *machine) normalize(x *Instr) (*ndarray.Array, error) {
	src, cols, err := m.full(x.Args[0])
	if err != nil {
		return nil, err
	}
	var affine []*ndarray.Array
	for _, a := range x.Args[1:] {
		if a == None {
			continue
		}
		v, _, err := m.full(a)
		if err != nil {
			return nil, err
		}
		affine = append(affine, v)
	}
	out, err := m.array(x.DType, m.shape)
	if err != nil {
		return nil, err
	}
	c := cell{x: x, out: out}
	for r := range out.Len() / max(cols, 1) {
		row := m.row(src, r, cols)
		m.normalizeRow(x, row)
		for j, v := range row {
			if c.i = r*cols + j; m.ended(c.i) {
				return nil, m.ctx.Err()
			}
			if len(affine) > 0 {
				v *= affine[0].Float(c.i)
			}
			if len(affine) > 1 {
				v += affine[1].Float(c.i)
			}
			c.setFloat(v)
		}
	}
	return out, nil
}

func (m *machine) normalizeRow(x *Instr, row []float64) {
	switch x.Op {
	case "Softmax", "LogSoftmax":
		top := m.reducedFloat("ReduceMax", row)
		for j := range row {
			row[j] -= top
		}
		all := m.reducedFloat("ReduceLogSumExp", row)
		for j := range row {
			if m.ended(j) {
				return
			}
			if row[j] -= all; x.Op == "Softmax" {
				row[j] = math.Exp(row[j])
			}
		}
	default:
		if x.Op == "LayerNormalization" {
			mean := m.reducedFloat("ReduceMean", row)
			for j := range row {
				row[j] -= mean
			}
		}
		scale := 1 / math.Sqrt(m.reducedFloat("ReduceSumSquare", row)/float64(len(row))+x.Params[0])
		for j := range row {
			row[j] *= scale
		}
	}
}
