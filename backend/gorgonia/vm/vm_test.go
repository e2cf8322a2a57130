package vm_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	. "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/vm"
)

func TestLinear(t *testing.T) {
	g := NewGraph()
	x := NewMatrix(g, Float32, WithShape(64, 8), WithName("x"), WithInit(GlorotU(1)))
	y := NewVector(g, Float32, WithShape(64), WithName("y"), WithInit(GlorotU(1)))
	w := NewVector(g, Float32, WithShape(8), WithName("w"), WithInit(GlorotU(1)))
	b := NewScalar(g, Float32, WithName("b"), WithValue(float32(0.5)))
	pred := Must(Add(Must(Mul(x, w)), b))
	cost := Must(Mean(Must(Square(Must(Sub(pred, y))))))
	_, err := Grad(cost, w, b)
	require.NoError(t, err)
	m, err := vm.New(g, vm.Keep(pred))
	require.NoError(t, err)
	require.NoError(t, m.RunAll())
	t.Log(cost.Value(), pred.Value())
	gw, err := w.Grad()
	require.NoError(t, err)
	gb, err := b.Grad()
	require.NoError(t, err)
	t.Log(gw, gb)
	t.Logf("%+v", m.Memory())
	t.Log(testing.AllocsPerRun(10, func() { require.NoError(t, m.RunAll()) }))
	tape := NewTapeMachine(g, BindDualValues(w, b))
	require.NoError(t, tape.RunAll())
	gw, _ = w.Grad()
	gb, _ = b.Grad()
	t.Log(cost.Value(), gw, gb)
	s := NewVanillaSolver()
	require.NoError(t, s.Step(NodesToValueGrads(Nodes{w, b})))
	_ = tensor.Float32
}
