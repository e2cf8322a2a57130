package tile

import (
	"math"

	"github.com/berth-onnx/berth/ndarray"
)

// Rows in the interpreter: reductions and normalizations.

// reduce makes one element of every row of argument 0.
func (m *machine) reduce(x *Instr) *ndarray.Array {
	out := ndarray.Must(x.DType, m.rowShape...)
	c := cell{x: x, out: out}
	src, cols := m.full(x.Args[0])
	for c.i = range out.Len() {
		if x.DType.IsFloat() {
			row := make([]float64, cols)
			for j := range row {
				row[j] = src.Float(c.i*cols + j)
			}
			c.setFloat(reducedFloat(x.Op, row))
			continue
		}
		acc := src.Int(c.i * cols)
		for j := 1; j < cols; j++ {
			acc = binaryInt(steps[x.Op], x.DType, acc, src.Int(c.i*cols+j))
		}
		out.SetInt(c.i, acc)
	}
	return out
}

// steps are the operations that reductions of integers repeat.
var steps = map[Op]Op{"ReduceSum": "Add", "ReduceProd": "Mul", "ReduceMax": "Max", "ReduceMin": "Min"}

// full is a value written out with an element for every index, and the length of a row.
func (m *machine) full(v Ref) (a *ndarray.Array, cols int) {
	cols = 1
	for _, d := range m.shape[len(m.shape)-m.p.Inner:] {
		cols *= d
	}
	x := m.values[v]
	at := positions(x.Shape, m.shape)
	size := x.DType.Size()
	a = ndarray.Must(x.DType, m.shape...)
	for i, j := range at {
		copy(a.Data[i*size:(i+1)*size], x.Data[j*size:])
	}
	return a, cols
}

func reducedFloat(o Op, row []float64) float64 {
	sum := func(f func(float64) float64) (s float64) {
		for _, v := range row {
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
func (m *machine) normalize(x *Instr) *ndarray.Array {
	src, cols := m.full(x.Args[0])
	var affine []*ndarray.Array
	for _, a := range x.Args[1:] {
		if a == None {
			continue
		}
		v, _ := m.full(a)
		affine = append(affine, v)
	}
	out := ndarray.Must(x.DType, m.shape...)
	c := cell{x: x, out: out}
	for r := range out.Len() / max(cols, 1) {
		row := make([]float64, cols)
		for j := range row {
			row[j] = src.Float(r*cols + j)
		}
		normalizeRow(x, row)
		for j, v := range row {
			c.i = r*cols + j
			if len(affine) > 0 {
				v *= affine[0].Float(c.i)
			}
			if len(affine) > 1 {
				v += affine[1].Float(c.i)
			}
			c.setFloat(v)
		}
	}
	return out
}

func normalizeRow(x *Instr, row []float64) {
	switch x.Op {
	case "Softmax", "LogSoftmax":
		all := reducedFloat("ReduceLogSumExp", row)
		for j, v := range row {
			if row[j] = v - all; x.Op == "Softmax" {
				row[j] = math.Exp(v - all)
			}
		}
	default:
		if x.Op == "LayerNormalization" {
			mean := reducedFloat("ReduceMean", row)
			for j := range row {
				row[j] -= mean
			}
		}
		scale := 1 / math.Sqrt(reducedFloat("ReduceSumSquare", row)/float64(len(row))+x.Params[0])
		for j := range row {
			row[j] *= scale
		}
	}
}
