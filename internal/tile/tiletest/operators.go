package tiletest

import (
	"fmt"
	"slices"

	"github.com/berth-onnx/berth/internal/tile"
	"github.com/berth-onnx/berth/ndarray"
)

// Single is a program of one operator.
type Single struct {
	Name    string
	Op      tile.Op
	Type    ndarray.DType // of its operands but the condition of a choice
	Program *tile.Program
}

// params are the numbers that operators have here.
var params = map[string]float64{"alpha": 0.375, "beta": 0.25, "gamma": 1.5, "lambd": 0.5, "bias": 0.125}

// Singles are programs of every operator that reads elements one by one, for operands and results of all given types that it has.
func Singles(types []ndarray.DType) (out []Single) {
	for _, op := range tile.Ops() {
		if op == tile.Constant || op == tile.Call || op.Reduces() || op.Normalizes() {
			continue
		}
		for _, dt := range types {
			for _, result := range types {
				p := single(op, dt, result)
				if p == nil {
					continue
				}
				out = append(out, Single{fmt.Sprintf("%s of %s to %s", op, dt, result), op, dt, p})
				if op == "Clip" {
					out = append(out, Single{fmt.Sprintf("%s of %s without limits", op, dt), op, dt, unlimited(dt)})
				}
			}
		}
	}
	return out
}

// unlimited is a Clip whose limits are those of the type.
func unlimited(dt ndarray.DType) *tile.Program {
	p := &tile.Program{Operands: []ndarray.DType{dt}}
	p.Store(p.Add(tile.Instr{Op: "Clip", DType: dt, Args: []tile.Ref{0, tile.None, tile.None}}))
	return p
}

// single is a program of one operator; nil if it has none of these types.
func single(op tile.Op, dt, result ndarray.DType) *tile.Program {
	least, most := op.Args()
	types := slices.Repeat([]ndarray.DType{dt}, least)
	switch op {
	case "Where":
		types = []ndarray.DType{ndarray.Bool, dt, dt}
	case "Clip":
		types = slices.Repeat(types, most)
	}
	if !op.Accepts(types, result) {
		return nil
	}
	p, x := &tile.Program{Operands: types}, tile.Instr{Op: op, DType: result}
	for i := range types {
		x.Args = append(x.Args, tile.Ref(i))
	}
	for _, param := range op.Params() {
		x.Params = append(x.Params, params[param])
	}
	p.Store(p.Add(x))
	return p
}
