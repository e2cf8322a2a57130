package cuda

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/backend/cuda/internal/device"
	"github.com/berth-onnx/berth/internal/rescue"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
)

// Profile is what a run does on the device of its session.
type Profile struct {
	Device string
	// Limits are what the device can reach: that of the session, or on cuda-sim those of the GPUs that it stands for.
	Limits []Limits
	// Rows are those of kernels and copies, the one that takes longest first; on cuda-sim the one with most instructions.
	Rows []ProfileRow
}

// Limits are what a GPU reaches a second by its clocks and units, which no kernel passes.
type Limits struct {
	Device       string
	Operations   float64 // on float32; a fused multiply-add is two
	Bytes        float64 // of its memory
	Instructions float64 // of warps
}

// ProfileRow is the work of one run by one kernel, or by the kernels of nodes that need several, or by copies.
type ProfileRow struct {
	Kernel     string // "recurrent + gemm" for nodes that launch both; copies are called so
	IsCopy     bool
	IsHost     bool  // of copies: from or to the host
	Launches   int   // of kernels, or copies
	Operations int64 // by the facts of the operators, as for the profile of a CPU
	Bytes      int64 // of operands and results, each once; of copies, what they copy

	// Time is that between the device's marks around it, the median of the runs; 0 on cuda-sim.
	Time time.Duration

	// What the interpreter counts; 0 on a GPU.
	Executed     int64 // operations on floats
	Instructions int64 // of warps
	Traffic      int64 // bytes of the pieces of 32 that warps read and write in the device's memory
}

// worker is a device that counts what its kernels do.
type worker interface{ Work() device.Work }

// simulatedLimits are those of GPUs of architectures that kernels are compiled for: NVIDIA's data sheets of the A100 SXM (80 GB) and
// of the H100 SXM, and four warps' instructions a clock and multiprocessor.
var simulatedLimits = []Limits{
	{"sm_80 (A100)", 19.5e12, 2039e9, 108 * 4 * 1.41e9},
	{"sm_90 (H100)", 67e12, 3350e9, 132 * 4 * 1.98e9},
}

// limitsOf computes limits from clocks: a double data rate of the memory, one fused multiply-add a clock and unit.
func limitsOf(i device.Info) Limits {
	units := 128
	if i.Major < 8 || i.Major == 8 && i.Minor == 0 {
		units = 64
	}
	clock, processors := 1e3*float64(i.ClockKHz), float64(i.Processors)
	return Limits{i.Name, processors * float64(units) * 2 * clock, 2e3 * float64(i.MemoryClockKHz) * float64(i.MemoryBusBits) / 8, processors * 4 * clock}
}

// MeasureRuns runs a session several times on inputs in the model's order, launch by launch instead of as graphs, and says what its
// kernels did. Sessions of one device are measured one after the other: a call waits for another, until ctx ends. Errors: those of [berth.Session.Run], a [berth.OptionError] for fewer runs than one, and a [TensorError] where the session does
// not run on a device.
func MeasureRuns(ctx context.Context, s *berth.Session, inputs []ndarray.Value, runs int) (_ *Profile, err error) {
	defer rescue.Into(&err)
	mem, err := memoryOf(s)
	if err != nil {
		return nil, err
	}
	if runs < 1 {
		return nil, &berth.OptionError{Option: "MeasureRuns", Got: fmt.Sprint(runs), Want: "one run or more"}
	}
	if err := ended(ctx); err != nil {
		return nil, rescue.WithCause(ctx, err)
	}
	m := mem.machine
	if err := m.measuring.enter(ctx); err != nil {
		return nil, rescue.WithCause(ctx, err)
	}
	defer m.measuring.Unlock()
	d := m.dev
	p := &profiler{dev: d, rows: map[string]*profiled{}}
	p.worker, _ = d.(worker)
	defer p.close()
	measured := context.WithValue(ctx, profilerKey{}, p)
	for range runs {
		if _, err := s.Run(measured, inputs); err != nil {
			return nil, err
		}
		p.runs++
	}
	out := &Profile{Device: d.Info().Name, Limits: []Limits{limitsOf(d.Info())}, Rows: p.list()}
	if p.worker != nil {
		out.Limits = slices.Clone(simulatedLimits)
	}
	return out, nil
}

// profilerKey is the key of the profiler in the context of a run that is measured.
type profilerKey struct{}

// profilerOf is the profiler of a run, nil if it is not measured.
func profilerOf(ctx context.Context) *profiler {
	p, _ := ctx.Value(profilerKey{}).(*profiler)
	return p
}

// profiler collects what runs do.
type profiler struct {
	dev    device.Device
	worker worker // nil: a device that has times
	rows   map[string]*profiled
	runs   int // that are done

	marks []mark // of the present segment
	names []string
	work  device.Work // before the present piece of work
}

// profiled is a row, with its times by run.
type profiled struct {
	ProfileRow
	times []time.Duration
}

// mark is an event behind work of a row, nil for the one that begins a segment.
type mark struct {
	event device.Event
	row   *profiled
}

// begin marks the start of a segment. Like all methods it does nothing without a profiler.
func (p *profiler) begin() error {
	if p == nil {
		return nil
	}
	p.close()
	return p.mark(nil)
}

// mark notes where the device is.
func (p *profiler) mark(row *profiled) error {
	if p.worker != nil {
		p.work = p.worker.Work()
		return nil
	}
	e, err := p.dev.NewEvent(true)
	if err != nil {
		return err
	}
	p.marks = append(p.marks, mark{e, row})
	return e.Record()
}

// launched notes a kernel of the present piece of work.
func (p *profiler) launched(name string) {
	if p != nil {
		p.names = append(p.names, name)
	}
}

var copyNames = map[what]string{
	copiesIn: "copy to the device", copiesOut: "copy from the device", copiesStatus: "copy from the device", copiesInside: "copy on the device",
}

// done ends a piece of work.
func (p *profiler) done(w *work) error {
	if p == nil {
		return nil
	}
	count := len(p.names)
	name := strings.Join(distinct(p.names), " + ")
	p.names = p.names[:0]
	if w.what != launches {
		name, count = copyNames[w.what], 1
	}
	row := p.rows[name]
	if row == nil {
		row = &profiled{ProfileRow: ProfileRow{Kernel: name, IsCopy: w.what != launches, IsHost: w.what != launches && w.what != copiesInside}}
		p.rows[name] = row
	}
	if p.runs == 0 {
		row.count(w, count)
		if p.worker != nil {
			now := p.worker.Work()
			row.Executed += now.Operations - p.work.Operations
			row.Instructions += now.Instructions - p.work.Instructions
			row.Traffic += now.Traffic - p.work.Traffic
		}
	}
	return p.mark(row)
}

// distinct leaves out names that came before.
func distinct(names []string) (out []string) {
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// count adds a piece of work to a row.
func (r *profiled) count(w *work, times int) {
	r.Launches += times
	if r.IsCopy {
		r.Bytes += w.bytes
		return
	}
	cost := ops.CostOf(w.node)
	r.Operations += cost.FLOPs
	r.Bytes += cost.Bytes
}

// settle reads the times of a segment whose work is done.
func (p *profiler) settle() error {
	if p == nil {
		return nil
	}
	for i := 1; i < len(p.marks); i++ {
		took, err := p.marks[i].event.Since(p.marks[i-1].event)
		if err != nil {
			return err
		}
		row := p.marks[i].row
		for len(row.times) <= p.runs {
			row.times = append(row.times, 0)
		}
		row.times[p.runs] += took
	}
	return nil
}

// close gives events back.
func (p *profiler) close() {
	for _, m := range p.marks {
		_ = m.event.Close() // a lost device has closed it
	}
	p.marks, p.names = p.marks[:0], p.names[:0]
}

// list has the rows in order.
func (p *profiler) list() (out []ProfileRow) {
	for _, r := range p.rows {
		if slices.Sort(r.times); len(r.times) > 0 {
			r.Time = r.times[len(r.times)/2]
		}
		out = append(out, r.ProfileRow)
	}
	slices.SortFunc(out, func(a, b ProfileRow) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(b.Instructions, a.Instructions), cmp.Compare(a.Kernel, b.Kernel))
	})
	return out
}
