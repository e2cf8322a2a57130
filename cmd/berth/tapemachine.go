package main

import (
	"context"
	"fmt"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/machines"
	"github.com/berth-onnx/berth/ndarray"
)

// machineSeconds is how long compare times the passes of a machine.
const machineSeconds = 0.5

// machineRows adds rows for the machines of Gorgonia, on the inputs that --run takes.
func (a *app) machineRows(ctx context.Context, m *berth.Model, have map[string]ndarray.Value, rows *planRows) error {
	in, err := a.randomInputs(m, a.bindShapes(m, have), have)
	if err != nil {
		return err
	}
	args := make([]ndarray.Value, len(m.Inputs()))
	for i, p := range m.Inputs() {
		args[i] = in[p.Name]
	}
	measured, err := a.machines(ctx, m, args, machineSeconds)
	if err != nil {
		return err
	}
	for i, r := range measured {
		row := planRow{PlanRow: berth.PlanRow{Planner: r.Name, Err: r.Err}, Machine: true, ProgramBytes: r.Arena, LiveBytes: r.Live, RunNanos: r.Min.Nanoseconds()}
		if i > 0 && r.Err == nil && measured[0].Err == nil {
			row.compare(m, resultsOf(m, r), resultsOf(m, measured[0]))
		}
		*rows = append(*rows, row)
	}
	return nil
}

// resultsOf names a machine's results.
func resultsOf(m *berth.Model, r machines.Row) map[string]ndarray.Value {
	out := map[string]ndarray.Value{}
	for i, p := range m.Outputs() {
		out[p.Name] = r.Results[i]
	}
	return out
}

// machines measures the machines of Gorgonia.
func (a *app) machines(ctx context.Context, m *berth.Model, args []ndarray.Value, seconds float64) ([]machines.Row, error) {
	return machines.Measure(ctx, m, args, machines.Options{Seconds: seconds, Threads: a.threads}, a.kernels()...)
}

// machineJSON is a machine's row in the object of bench.
type machineJSON struct {
	Machine      string  `json:"machine"`
	Runs         int     `json:"runs"`
	MedianNanos  int64   `json:"median_ns"`
	MinNanos     int64   `json:"min_ns"`
	LiveBytes    int64   `json:"live_bytes"`
	ArenaBytes   int64   `json:"arena_bytes"`
	AllocsPerRun float64 `json:"allocs_per_run"`
	Error        string  `json:"error"`
}

// benchMachines times the machines of Gorgonia on the arguments of a run.
func (a *app) benchMachines(ctx context.Context, m *berth.Model, args []ndarray.Value, seconds float64, res *benchJSON) error {
	rows, err := a.machines(ctx, m, args, seconds)
	for _, r := range rows {
		res.Machines = append(res.Machines, machineJSON{Machine: r.Name, Runs: r.Passes, MedianNanos: r.Median.Nanoseconds(), MinNanos: r.Min.Nanoseconds(),
			LiveBytes: r.Live, ArenaBytes: r.Arena, AllocsPerRun: r.Allocs, Error: errorText(r.Err)})
	}
	return err
}

// printMachines prints the machines' part of bench.
func (a *app) printMachines(rows []machineJSON) {
	if len(rows) == 0 {
		return
	}
	a.printf("\n")
	t := newTable(a.out, "machine", "median", "fastest", "live", "arena", "allocations", "note")
	alignRight(t, 2, 3, 4, 5, 6)
	for _, r := range rows {
		if r.Error != "" {
			t.AppendRow([]any{r.Machine, "-", "-", "-", "-", "-", r.Error})
			continue
		}
		t.AppendRow([]any{r.Machine, durationText(r.MedianNanos), durationText(r.MinNanos), bytesText(r.LiveBytes), dash(r.ArenaBytes, bytesText), fmt.Sprintf("%.0f", r.AllocsPerRun), ""})
	}
	t.Render()
}
