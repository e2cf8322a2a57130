package main

import (
	"cmp"
	"slices"

	"github.com/berth-onnx/berth/ndarray"
)

// mostRows is for how many rows of an output the largest elements are shown.
const mostRows = 10

// topJSON are the largest elements of a row of an output.
type topJSON struct {
	Row     int        `json:"row"`
	Largest []rankJSON `json:"largest"`
}

type rankJSON struct {
	Index int     `json:"index"`
	Value float64 `json:"value"`
}

// largest finds the k largest elements of each row, along the last axis, of the first rows.
func largest(a *ndarray.Array, k int) (out []topJSON) {
	if a.DType == ndarray.String || a.DType.IsComplex() || a.Rank() == 0 || a.Len() == 0 {
		return nil
	}
	n := a.Shape[a.Rank()-1]
	row := make([]rankJSON, n)
	for r := range min(a.Len()/n, mostRows) {
		for i := range row {
			row[i] = rankJSON{i, a.Float(r*n + i)}
		}
		slices.SortStableFunc(row, func(x, y rankJSON) int { return cmp.Compare(y.Value, x.Value) }) // NaN comes last
		top := topJSON{Row: r, Largest: []rankJSON{}}
		for _, e := range row[:min(k, n)] {
			if e.Value-e.Value == 0 { // JSON has no infinities
				top.Largest = append(top.Largest, e)
			}
		}
		out = append(out, top)
	}
	return out
}

// printTop prints the largest elements of outputs.
func (a *app) printTop(outs []outputJSON) {
	t := newTable(a.out, "output", "row", "rank", "index", "value")
	for _, o := range outs {
		for _, row := range o.Top {
			for i, e := range row.Largest {
				t.AppendRow([]any{o.Name, row.Row, i + 1, e.Index, o.short(number(e.Value))})
			}
		}
	}
	t.Render()
	for _, o := range outs {
		if rows := rowsOf(o.Shape); len(o.Top) > 0 && rows > len(o.Top) {
			a.printf("%s: the first %d of %d rows\n", o.Name, len(o.Top), rows)
		}
	}
}

// rowsOf is the product of all dimensions but the last.
func rowsOf(shape []int) int { return ndarray.Product(shape[:max(len(shape)-1, 0)]) }
