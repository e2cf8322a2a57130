package berth_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ssa"
	"github.com/berth-onnx/berth/testmodels"
)

// builtin builds one of the models that need no file; programs usually open theirs
// with berth.Open.
func builtin(name string) *berth.Model {
	m, err := testmodels.Build(name)
	if err != nil {
		log.Fatal(err)
	}
	return berth.FromModule(m)
}

// ones is a tensor filled with 1.
func ones(shape ...int) *ndarray.Array {
	a := ndarray.Must(ndarray.Float32, shape...)
	for i := range a.Len() {
		a.SetFloat(i, 1)
	}
	return a
}

// Open a model file and run it. The model is compiled for the inputs' shapes once.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "berth")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "mlp.onnx")
	if err := builtin("mlp").Save(path, berth.SaveOptions{}); err != nil {
		log.Fatal(err)
	}

	m, err := berth.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	for _, in := range m.Inputs() {
		fmt.Println("input", in.Name, in.Type)
	}
	out, err := m.RunValues(context.Background(), map[string]ndarray.Value{"x": ones(4, 64)})
	if err != nil {
		log.Fatal(err)
	}
	p, err := berth.As[float32](out["probabilities"])
	if err != nil {
		log.Fatal(err)
	}
	sum := 0.0
	for _, v := range p[:10] {
		sum += float64(v)
	}
	fmt.Printf("output %v, first row adds up to %.3f\n", out["probabilities"], sum)
	// Output:
	// input x float32[4,64]
	// output float32[4,10], first row adds up to 1.000
}

// Compile fixes the shapes and plans the memory; the plan can be looked at.
func ExampleModel_Compile() {
	p, err := builtin("encoder").Compile(context.Background(), berth.WithDim("N", 1), berth.WithDim("S", 16), berth.WithThreads(2))
	if err != nil {
		log.Fatal(err)
	}
	plan := p.Plan()
	fmt.Println("optimal:", plan.Proven && plan.ArenaBytes == plan.LowerBound)
	fmt.Println("less than an eighth of a buffer per tensor:", plan.ArenaBytes < plan.NaiveBytes/8)
	fmt.Println("values without a planned place:", plan.DynamicValues)
	// Output:
	// optimal: true
	// less than an eighth of a buffer per tensor: true
	// values without a planned place: 0
}

// Optimize rewrites a model to fewer operators; Save writes it as standard ONNX.
func ExampleModel_Optimize() {
	dir, err := os.MkdirTemp("", "berth")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	m := builtin("unet")
	small, report, err := m.Optimize(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	path := filepath.Join(dir, "unet.opt.onnx")
	if err := small.Save(path, berth.SaveOptions{}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("batch normalizations:", report.Before.Operators["BatchNormalization"], "before,", report.After.Operators["BatchNormalization"], "after")

	again, err := berth.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer again.Close()
	in := map[string]ndarray.Value{"x": ones(1, 3, 64, 64)}
	var masks [2][]float32
	for i, of := range []*berth.Model{m, again} {
		out, err := of.RunValues(context.Background(), in)
		if err != nil {
			log.Fatal(err)
		}
		if masks[i], err = berth.As[float32](out["mask"]); err != nil {
			log.Fatal(err)
		}
	}
	most := 0.0
	for i, v := range masks[0] {
		most = max(most, math.Abs(float64(v-masks[1][i])))
	}
	fmt.Println("same outputs:", most < 1e-4)
	// Output:
	// batch normalizations: 10 before, 0 after
	// same outputs: true
}

// A session runs in one arena of its own. Inputs are read where they lie, results
// stay valid until the next run, and nothing is allocated.
func ExampleSession() {
	p, err := builtin("loop-conv").Compile(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	s, err := p.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	x := ndarray.Must(ndarray.Float32, 1, 4, 8, 8)
	n := ndarray.Scalar[int64](0)
	for _, trips := range []int64{0, 3} {
		n.SetInt(0, trips)
		out, err := s.Run(context.Background(), []ndarray.Value{n, x})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(trips, "iterations:", out[0])
	}
	// Output:
	// 0 iterations: float32[1,4,8,8]
	// 3 iterations: float32[1,4,8,8]
}

// A run ends soon after its context does, in the middle of a loop, too.
func ExampleProgram_RunValues_cancel() {
	p, err := builtin("loop-conv").Compile(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = p.RunValues(ctx, map[string]ndarray.Value{
		"x": ones(1, 4, 8, 8),
		"n": ndarray.Scalar[int64](math.MaxInt64), // centuries
	})
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

// Compare plans a model with every planner.
func ExampleModel_Compare() {
	rows, err := builtin("unet").Compare(context.Background(), berth.CompareOptions{Planners: []string{"naive", "greedy-size"}})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range rows {
		fmt.Printf("%s: optimal %v, copies %d bytes per loop iteration\n", r.Planner, r.Proven, r.LoopCopyBytes)
	}
	// Output:
	// naive: optimal false, copies 0 bytes per loop iteration
	// greedy-size: optimal true, copies 0 bytes per loop iteration
}

// A server reloads a model while requests run: it swaps the program and closes the old model.
// Runs in progress end as ever; one that comes too late is tried again with the new program.
func Example_reload() {
	var now atomic.Pointer[berth.Program]
	load := func(name string) (*berth.Model, error) {
		m := builtin(name) // berth.Open(path)
		p, err := m.Compile(context.Background())
		if err == nil {
			now.Store(p)
		}
		return m, err
	}
	handle := func(in map[string]ndarray.Value) (map[string]ndarray.Value, error) {
		for {
			out, err := now.Load().RunValues(context.Background(), in)
			if !errors.Is(err, berth.ErrClosed) {
				return out, err
			}
		}
	}
	old, err := load("mlp")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := load("mlp"); err != nil {
		log.Fatal(err)
	}
	old.Close()
	out, err := handle(map[string]ndarray.Value{"x": ones(4, 64)})
	fmt.Println(out["probabilities"], err)
	// Output:
	// float32[4,10] <nil>
}

// A session keeps the state of a streaming model from run to run.
func ExampleWithState() {
	g, err := ssa.ParseGraph(`graph "mean" { in %x: float32[1] in %state: float32[1] const %half: float32[] = 0.5
		%sum = Add(%x, %state) %stateN = Mul(%sum, %half) %y = Identity(%stateN) out %y, %stateN }`)
	if err != nil {
		log.Fatal(err)
	}
	m := berth.FromModule(&ssa.Module{Graph: g})
	p, err := m.Compile(context.Background(), berth.WithState("state", "stateN"))
	if err != nil {
		log.Fatal(err)
	}
	s, err := p.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		out, err := s.RunValues(context.Background(), map[string]ndarray.Value{"x": ndarray.Of([]float32{8}, 1)})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(out["y"].(*ndarray.Array).Float(0))
	}
	// Output:
	// 4
	// 6
	// 7
}
