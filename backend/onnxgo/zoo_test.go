package onnxgo_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/owulveryck/onnx-go"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/onnxgo"
	"github.com/berth-onnx/berth/internal/conformance"
	"github.com/berth-onnx/berth/internal/shareddata"
	"github.com/berth-onnx/berth/ndarray"
	_ "github.com/berth-onnx/berth/ops/all"
	"gorgonia.org/tensor"
)

func through(decode func(g *onnxgo.Graph, m *onnx.Model, c *conformance.Case) error) conformance.Prepare {
	return func(_ context.Context, c *conformance.Case) (run conformance.Runner, done func() error, err error) {
		g := onnxgo.NewGraph()
		m := onnx.NewModel(g)
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("DECODEPANIC %v", r)
			}
		}()
		if err := decode(g, m, c); err != nil {
			return nil, nil, fmt.Errorf("DECODE %w", err)
		}
		return func(ctx context.Context, in []conformance.Named) ([]conformance.Named, error) {
			for _, v := range in {
				n, ok := m.GetNodeByName(v.Name)
				if !ok {
					return nil, fmt.Errorf("no node %s", v.Name)
				}
				a, ok := v.Value.(*ndarray.Array)
				if !ok {
					return nil, errors.New("NOTENSOR")
				}
				d, err := berth.DenseOf(a)
				if err != nil {
					return nil, err
				}
				if err := n.(onnx.DataCarrier).SetTensor(d); err != nil {
					return nil, err
				}
			}
			if err := g.RunContext(ctx); err != nil {
				return nil, err
			}
			out, err := m.GetOutputTensors()
			if err != nil {
				return nil, err
			}
			var res []conformance.Named
			for i, o := range out {
				if o == nil {
					return nil, fmt.Errorf("NIL output %d", i)
				}
				a, err := berth.ArrayOf(o.(*tensor.Dense))
				if err != nil {
					return nil, err
				}
				res = append(res, conformance.Named{Value: a})
			}
			return res, nil
		}, g.Close, nil
	}
}

func TestTmpZoo(t *testing.T) {
	list, _ := filepath.Glob(filepath.Join(shareddata.Path(t, "onnx-conformance"), "*.tar.gz"))
	for _, p := range append(list, shareddata.Path(t, "models")) {
		cases, err := conformance.Open(p)
		require.NoError(t, err)
		var n [2]int
		for _, c := range cases {
			err := conformance.Verify(t.Context(), c, through(func(_ *onnxgo.Graph, m *onnx.Model, c *conformance.Case) error {
				b, err := c.ModelBytes()
				if err != nil {
					return err
				}
				return m.UnmarshalBinary(b)
			}), conformance.Tolerance{Rtol: 1e-3, Atol: 1e-4})
			if err != nil {
				fmt.Printf("PLAIN %s %.300s\n", c.Name, err)
			} else {
				n[0]++
			}
			err = conformance.Verify(t.Context(), c, through(func(g *onnxgo.Graph, m *onnx.Model, c *conformance.Case) error {
				b, err := c.ModelBytes()
				if err != nil {
					return err
				}
				return g.Parse(m, b)
			}), conformance.Tolerance{Rtol: 1e-3, Atol: 1e-4})
			if err != nil {
				fmt.Printf("PARSE %s %.300s\n", c.Name, err)
			} else {
				n[1]++
			}
		}
		fmt.Println("SUM", filepath.Base(p), len(cases), n)
	}
}
