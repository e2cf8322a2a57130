package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/cuda"       // --backend cuda, cuda-sim
	_ "github.com/berth-onnx/berth/backend/gorgonia" // --backend gorgonia
	"github.com/berth-onnx/berth/internal/roofline"
	"github.com/berth-onnx/berth/ndarray"
)

// deviceJSON is what a run does on a device (bench --backend cuda, cuda-sim).
type deviceJSON struct {
	Name    string             `json:"name"`
	IsSim   bool               `json:"simulated"`
	Limits  []deviceLimitsJSON `json:"limits"`
	Kernels []kernelJSON       `json:"kernels"`
}

// deviceLimitsJSON is what a GPU reaches.
type deviceLimitsJSON struct {
	Device       string  `json:"device"`
	GFLOPs       float64 `json:"gflop_per_s"` // on float32
	GBs          float64 `json:"gb_per_s"`
	Instructions float64 `json:"ginstructions_per_s"` // of warps
}

// kernelJSON is the work of a run by one kernel, or by copies.
type kernelJSON struct {
	Kernel    string  `json:"kernel"`
	Launches  int     `json:"launches"`
	FLOPs     int64   `json:"flops"`
	Bytes     int64   `json:"bytes"`
	Intensity float64 `json:"flop_per_byte"`

	// On a GPU.
	Nanos    int64   `json:"ns,omitempty"`
	GFLOPs   float64 `json:"gflop_per_s,omitempty"`
	GBs      float64 `json:"gb_per_s,omitempty"`
	Limit    string  `json:"limit,omitempty"`
	Fraction float64 `json:"limit_fraction,omitempty"`

	// On the interpreter.
	Executed     int64           `json:"executed_flops,omitempty"`
	Instructions int64           `json:"instructions,omitempty"` // of warps
	Traffic      int64           `json:"traffic_bytes,omitempty"`
	Predicted    []predictedJSON `json:"predicted,omitempty"`
}

// predictedJSON is the least time that the limits of a GPU allow.
type predictedJSON struct {
	Device string `json:"device"`
	Nanos  int64  `json:"ns"`
	Limit  string `json:"limit"`
}

// simulates reports a backend that has no times of its own.
func simulates(backend string) bool { return backend == cuda.SimName }

// lacksDevice reports that nothing can run on the backend's device, whatever the model.
func lacksDevice(err error) bool {
	var driver *cuda.NoDriverError
	var oldDriver *cuda.OldDriverError
	var none *cuda.NoDeviceError
	var old *cuda.OldDeviceError
	var lost *cuda.DeviceLostError
	return errors.As(err, &driver) || errors.As(err, &oldDriver) || errors.As(err, &none) || errors.As(err, &old) || errors.As(err, &lost)
}

// benchDevice adds what kernels of a device do; nothing for other backends.
func benchDevice(ctx context.Context, s *berth.Session, args []ndarray.Value, backend string, res *benchJSON) error {
	if s.DeviceMemory() == nil {
		return nil
	}
	runs := profileRuns
	if simulates(backend) {
		runs = 1
	}
	p, err := cuda.MeasureRuns(ctx, s, args, runs)
	if err != nil {
		return err
	}
	out := &deviceJSON{Name: p.Device, IsSim: simulates(backend)}
	var limits []*roofline.Limits
	for _, l := range p.Limits {
		out.Limits = append(out.Limits, deviceLimitsJSON{l.Device, l.Operations / 1e9, l.Bytes / 1e9, l.Instructions / 1e9})
		limits = append(limits, &roofline.Limits{Floats: l.Operations, Memory: []roofline.Speed{{PerSecond: l.Bytes}}, Instructions: l.Instructions})
	}
	for _, r := range p.Rows {
		k := kernelJSON{Kernel: r.Kernel, Launches: r.Launches, FLOPs: r.Operations, Bytes: r.Bytes, Nanos: r.Time.Nanoseconds(),
			Executed: r.Executed, Instructions: r.Instructions, Traffic: r.Traffic, Intensity: float64(r.Operations) / float64(max(r.Bytes, 1))}
		if r.Time > 0 {
			k.GFLOPs, k.GBs = rate(r.Operations, k.Nanos), rate(r.Bytes, k.Nanos)
		}
		for i, l := range limits {
			bound, limit := l.Bound(roofline.Work{Operations: max(r.Operations, r.Executed), Bytes: r.Bytes, Instructions: r.Instructions})
			switch {
			case r.IsHost: // by another bus
			case out.IsSim:
				k.Predicted = append(k.Predicted, predictedJSON{p.Limits[i].Device, int64(bound), limit})
			case r.Time > 0:
				k.Limit, k.Fraction = limit, bound/float64(k.Nanos)
			}
		}
		out.Kernels = append(out.Kernels, k)
	}
	res.Device = out
	return nil
}

// megaText is a number in millions.
func megaText(n int64) string { return fmt.Sprintf("%.2f", float64(n)/1e6) }

// printDevice prints the table of kernels.
func (a *app) printDevice(d *deviceJSON) {
	if d == nil {
		return
	}
	a.printf("\n%s:\n", d.Name)
	head := []any{"kernel", "launches", "MFLOP", "bytes", "FLOP/B"}
	if d.IsSim {
		head = append(head, "executed", "instructions", "traffic")
		for _, l := range d.Limits {
			head = append(head, l.Device)
		}
	} else {
		head = append(head, "time", "GFLOP/s", "GB/s", "of limit")
	}
	t := newTable(a.out, head...)
	alignRight(t, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	for _, k := range d.Kernels {
		line := []any{k.Kernel, k.Launches, megaText(k.FLOPs), bytesText(k.Bytes), fmt.Sprintf("%.1f", k.Intensity)}
		if !d.IsSim {
			line = append(line, durationText(k.Nanos), fmt.Sprintf("%.0f", k.GFLOPs), fmt.Sprintf("%.0f", k.GBs), word(k.Limit != "", fmt.Sprintf("%.0f%% %s", 100*k.Fraction, k.Limit), "-"))
			t.AppendRow(line)
			continue
		}
		line = append(line, megaText(k.Executed), k.Instructions, bytesText(k.Traffic))
		for i := range d.Limits {
			cell := "-"
			if i < len(k.Predicted) {
				cell = durationText(k.Predicted[i].Nanos) + " " + k.Predicted[i].Limit
			}
			line = append(line, cell)
		}
		t.AppendRow(line)
	}
	t.Render()
	if d.IsSim {
		a.printf("No times: the interpreter counts. Columns of GPUs are the least time that their limits allow, computed, not measured.\n")
	}
}
