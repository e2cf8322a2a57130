package onnxgo_test

import (
	"fmt"
	"sort"
	"testing"

	"github.com/owulveryck/onnx-go"
	"github.com/owulveryck/onnx-go/backend"
	"github.com/owulveryck/onnx-go/backend/testbackend"
	_ "github.com/owulveryck/onnx-go/backend/testbackend/onnx"
	"github.com/owulveryck/onnx-go/backend/x/gorgonnx"
	"github.com/stretchr/testify/assert"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/onnxgo"
)

func suite() []*testbackend.TestCase {
	var out []*testbackend.TestCase
	for _, make := range testbackend.GetAllRegisteredTests() {
		out = append(out, make())
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Title < out[j].Title })
	return out
}

type failures struct{ list []string }

func (f *failures) Errorf(format string, args ...any) {
	f.list = append(f.list, fmt.Sprintf(format, args...))
}

func verdict(b backend.ComputationBackend, tc *testbackend.TestCase, decode func(*onnx.Model) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("PANIC %v", r)
		}
	}()
	m := onnx.NewModel(b)
	if err := decode(m); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	for i := range tc.Input {
		if err := m.SetInput(i, tc.Input[i]); err != nil {
			return fmt.Errorf("input: %w", err)
		}
	}
	if err := b.Run(); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	out, err := m.GetOutputTensors()
	if err != nil {
		return err
	}
	if len(out) != len(tc.ExpectedOutput) {
		return fmt.Errorf("%d outputs, want %d", len(out), len(tc.ExpectedOutput))
	}
	f := &failures{}
	for i, w := range tc.ExpectedOutput {
		if !assert.ObjectsAreEqual([]int(w.Shape()), []int(out[i].Shape())) && len(w.Shape())+len(out[i].Shape()) > 0 {
			return fmt.Errorf("shape %v, want %v", out[i].Shape(), w.Shape())
		}
		assert.InDeltaSlice(f, w.Data(), out[i].Data(), 1e-6)
	}
	if len(f.list) > 0 {
		return fmt.Errorf("%s", f.list[0])
	}
	return nil
}

var _ tensor.Tensor

func TestTmp(t *testing.T) {
	var n [3]int
	for _, tc := range suite() {
		g := onnxgo.NewGraph()
		if err := verdict(g, tc, func(m *onnx.Model) error { return m.UnmarshalBinary(tc.ModelB) }); err != nil {
			fmt.Println("PLAIN", tc.Title, err)
		} else {
			n[0]++
		}
		g = onnxgo.NewGraph()
		if err := verdict(g, tc, func(m *onnx.Model) error { return g.Parse(m, tc.ModelB) }); err != nil {
			fmt.Println("PARSE", tc.Title, err)
		} else {
			n[1]++
		}
		if err := verdict(gorgonnx.NewGraph(), tc, func(m *onnx.Model) error { return m.UnmarshalBinary(tc.ModelB) }); err == nil {
			n[2]++
		}
	}
	fmt.Println(len(suite()), n)
}
