package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/owulveryck/onnx-go"
	"github.com/owulveryck/onnx-go/backend"
	"github.com/owulveryck/onnx-go/backend/x/gorgonnx"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/onnxgo"
	"github.com/berth-onnx/berth/internal/livebytes"
	"github.com/berth-onnx/berth/internal/sysmem"
)

// backends are compared in this order; the results of the last are the measure for the others.
var backends = []string{"gorgonnx", "berth, memory", "berth"}

func newBackend(name string) backend.ComputationBackend {
	switch name {
	case "gorgonnx":
		return gorgonnx.NewGraph()
	case "berth, memory": // no layout of weights that takes more than they do
		return onnxgo.NewGraph(berth.WithOptimizeFor(berth.Memory))
	}
	return onnxgo.NewGraph()
}

// runner is a decoded model with its inputs set.
type runner struct {
	backend backend.ComputationBackend
	model   *onnx.Model
}

func (m *model) decode(backend string) (r *runner, err error) {
	defer recovered(&err)
	r = &runner{backend: newBackend(backend)}
	r.model = onnx.NewModel(r.backend)
	if err := r.model.UnmarshalBinary(m.data); err != nil {
		return nil, err
	}
	for i, x := range m.inputs() {
		if err := r.model.SetInput(i, x); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// run runs the model once; Gorgonia's panics are errors.
func (r *runner) run() (took time.Duration, err error) {
	defer recovered(&err)
	begin := time.Now()
	err = r.backend.Run()
	return time.Since(begin), err
}

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v", p)
	}
}

// outputs returns the float32 results.
func (r *runner) outputs() (out [][]float32, err error) {
	list, err := r.model.GetOutputTensors()
	for _, y := range list {
		if y != nil {
			v, _ := y.Data().([]float32)
			out = append(out, slices.Clone(v))
		}
	}
	return out, err
}

// measure fills the rows of one model.
func (m *model) measure(runs int) ([]*row, error) {
	rows := make([]*row, len(backends))
	for i, b := range backends {
		var err error
		if rows[i], err = m.memory(b); err != nil {
			return nil, err
		}
	}
	m.time(rows, runs)
	want := rows[len(rows)-1].outputs
	for _, r := range rows {
		for k := range min(len(r.outputs), len(want)) {
			r.Differs = max(r.Differs, difference(r.outputs[k], want[k]))
		}
	}
	return rows, nil
}

func difference(a, b []float32) (most float64) {
	if len(a) != len(b) {
		return math.MaxFloat64
	}
	for i := range a {
		most = max(most, math.Abs(float64(a[i])-float64(b[i])))
	}
	return most
}

// time runs the backends in turns.
func (m *model) time(rows []*row, runs int) {
	runners := make([]*runner, len(rows))
	for i, r := range rows {
		if r.Error != "" {
			continue
		}
		var err error
		if runners[i], err = m.decode(r.Backend); err == nil {
			var took time.Duration
			took, err = runners[i].run()
			r.FirstRun, r.Run = milliseconds(took), math.MaxFloat64
		}
		if err == nil {
			r.outputs, err = runners[i].outputs()
		}
		if err != nil {
			r.Error, runners[i] = firstLine(err), nil
		}
	}
	for range runs {
		for i, r := range rows {
			if runners[i] == nil {
				continue
			}
			runtime.GC() // what the other left is not this one's to collect
			if took, err := runners[i].run(); err == nil {
				r.Run = min(r.Run, milliseconds(took))
			}
		}
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line[:min(len(line), 100)]
}

// memory measures a backend in a process of its own.
func (m *model) memory(backend string) (*row, error) {
	dir, err := os.MkdirTemp("", "onnxgo")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.onnx")
	if err := os.WriteFile(path, m.data, 0o600); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	out, err := exec.Command(self, "--measure-memory", backend, path).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return nil, fmt.Errorf("%w: %s", err, failed.Stderr)
	} else if err != nil {
		return nil, err
	}
	r := &row{}
	if err := json.Unmarshal(out, r); err != nil {
		return nil, err
	}
	r.Model, r.Backend, r.FileBytes = m.name, backend, len(m.data)
	return r, nil
}

// samplingTime is how long a model is run while memory is measured.
const samplingTime = 2 * time.Second

// measureMemory prints a row with the memory of one backend.
func measureMemory(backend, path string) error {
	m, err := open(path)
	if err != nil {
		return err
	}
	out := &row{}
	before := livebytes.Now()
	r, err := m.decode(backend)
	if err == nil {
		out.Decoded = livebytes.Now() - before
		out.Peak, err = r.peak(before, 0)
	}
	if err == nil {
		out.Running, err = r.peak(before, samplingTime)
	}
	if err != nil {
		out.Error = firstLine(err)
	}
	if g, ok := r.graph(); ok && g.Model() != nil {
		out.Arena = g.Model().Stats().ArenaBytes
	}
	out.Resident = sysmem.PeakResident()
	runtime.KeepAlive(m)
	return json.NewEncoder(os.Stdout).Encode(out)
}

// graph is berth's backend.
func (r *runner) graph() (*onnxgo.Graph, bool) {
	if r == nil {
		return nil, false
	}
	g, ok := r.backend.(*onnxgo.Graph)
	return g, ok
}

// peak is the most memory beyond some bytes that is reachable while the model runs for a time, once at least.
func (r *runner) peak(before int64, long time.Duration) (int64, error) {
	most, err := livebytes.Peak(long, func() error {
		_, err := r.run()
		return err
	})
	return most - before, err
}
