package main

import (
	"context"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/berth-onnx/berth"
)

// progressAfter is how long a command is silent where standard error is no terminal, and then how often it speaks at most.
var progressAfter = 2 * time.Second

// progress says what a long command is doing: a bar on a terminal of known size, elsewhere a line now and then once the command takes
// long. With --json or NO_COLOR there is no bar, with --json no line either.
type progress struct {
	p    *mpb.Progress
	bar  *mpb.Bar
	now  atomic.Pointer[string]
	once sync.Once
	busy bool
	stop chan struct{} // of the goroutine that prints lines; nil without one
}

// newProgress starts a bar of total steps on standard error.
func (a *app) newProgress(total int) *progress {
	pr := &progress{}
	if a.json {
		return pr
	}
	if !hasSize(a.errOut) || os.Getenv("NO_COLOR") != "" {
		pr.stop = make(chan struct{})
		go pr.speak(a, time.NewTicker(progressAfter))
		return pr
	}
	pr.p = mpb.New(mpb.WithOutput(a.errOut), mpb.WithWidth(32))
	pr.bar = pr.p.AddBar(int64(total), mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.CountersNoUnit("%d/%d ")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			if s := pr.now.Load(); s != nil {
				return " " + *s
			}
			return ""
		})))
	return pr
}

// hasSize reports a terminal that has lines and columns: one that a program made may not say how many.
func hasSize(w io.Writer) bool {
	if !terminal(w) {
		return false
	}
	columns, lines, err := cwriter.GetSize(int(w.(*os.File).Fd()))
	return err == nil && columns > 0 && lines > 0
}

// speak prints what is being done, each thing once.
func (p *progress) speak(a *app, tick *time.Ticker) {
	defer tick.Stop()
	var last *string
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
			if s := p.now.Load(); s != last {
				a.note("berth: %s …", *s)
				last = s
			}
		}
	}
}

// step says what is being done now; what was before is finished.
func (p *progress) step(doing string) {
	doing = plain(doing)
	p.now.Store(&doing)
	if p.bar == nil {
		return
	}
	if p.busy {
		p.bar.Increment()
	}
	p.busy = true
}

// skip counts steps that were taken before.
func (p *progress) skip(steps int) {
	if p.bar != nil {
		p.bar.IncrBy(steps)
	}
}

// done takes the bar away. It may be called twice.
func (p *progress) done() {
	p.once.Do(func() {
		if p.stop != nil {
			close(p.stop)
		}
		if p.bar != nil {
			p.bar.Abort(true)
			p.p.Wait()
		}
	})
}

// counting says now and then how many nodes of a long run have been executed, until end is called. The run must have the hook.
func (a *app) counting(run string) (hook *berth.Hook, end func()) {
	if a.json {
		return nil, func() {}
	}
	var nodes atomic.Int64
	stop, start := make(chan struct{}), time.Now()
	go func() {
		tick := time.NewTicker(progressAfter)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case now := <-tick.C:
				a.note("berth: %s: %d nodes in %.0f s …", run, nodes.Load(), now.Sub(start).Seconds())
			}
		}
	}()
	return &berth.Hook{Before: func(context.Context, berth.Event) { nodes.Add(1) }}, sync.OnceFunc(func() { close(stop) })
}
