package exprgraph_test

import (
	"math"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/gorgonia/exprgraph"
	"github.com/berth-onnx/berth/backend/gorgonia/vm"
	"github.com/berth-onnx/berth/testmodels"
)

// TestFineTuning learns the last layer of a convolutional network for three pictures anew, with a solver of Gorgonia's: the
// cross-entropy of their classes falls below 0.05, and the other weights stay as they are.
func TestFineTuning(t *testing.T) {
	const pictures, size, classes = 3, 224, 1000
	epochs, bound := 60, float32(0.05)
	if raceDetector { // under which a pass takes a hundred times as long
		epochs, bound = 2, math.MaxFloat32
	}
	module, err := testmodels.Build("mobilenetv2")
	require.NoError(t, err)
	m := berth.FromModule(module)
	defer m.Close()
	net, err := exprgraph.Import(t.Context(), m)
	require.NoError(t, err)
	label := G.NewMatrix(net.ExprGraph, tensor.Float32, G.WithShape(1, classes), G.WithName("label"))
	logs, err := exprgraph.Apply("LogSoftmax", 1, []*G.Node{net.Outputs[0]})
	require.NoError(t, err)
	loss := G.Must(G.Neg(G.Must(G.Sum(G.Must(G.HadamardProd(logs[0], label))))))
	head := net.Weights[len(net.Weights)-2:] // the matrix and the bias of the last layer
	before := append([]float32(nil), net.Weights[0].Value().Data().([]float32)...)
	_, err = G.Grad(loss, head...)
	require.NoError(t, err)

	r := rand.New(rand.NewSource(1))
	var x, want [pictures]*tensor.Dense
	for i := range pictures {
		pixels, class := make([]float32, 3*size*size), make([]float32, classes)
		for k := range pixels {
			pixels[k] = float32(r.NormFloat64())
			if k/(size*size) == i { // each picture is bright in a color of its own
				pixels[k] += 3
			}
		}
		class[7*i+3] = 1
		x[i] = tensor.New(tensor.WithShape(1, 3, size, size), tensor.WithBacking(pixels))
		want[i] = tensor.New(tensor.WithShape(1, classes), tensor.WithBacking(class))
	}
	require.NoError(t, G.Let(net.Inputs[0], x[0]))
	require.NoError(t, G.Let(label, want[0]))
	machine, err := vm.New(net.ExprGraph)
	require.NoError(t, err)
	defer machine.Close()
	solver := G.NewAdamSolver(G.WithLearnRate(0.005))
	var first, worst float32
	for epoch := range epochs {
		worst = 0
		for i := range pictures {
			require.NoError(t, G.Let(net.Inputs[0], x[i]))
			require.NoError(t, G.Let(label, want[i]))
			require.NoError(t, machine.RunAll())
			worst = max(worst, loss.Value().Data().(float32))
			require.NoError(t, solver.Step(G.NodesToValueGrads(head)))
		}
		if epoch == 0 {
			first = worst
		}
	}
	t.Logf("largest loss of an epoch: %g, then %g", first, worst)
	require.Greater(t, first, float32(1))
	require.Less(t, worst, bound)
	require.Equal(t, before, net.Weights[0].Value().Data())
}
