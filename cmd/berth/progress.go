package main

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress is a bar on a terminal and nothing elsewhere.
type progress struct {
	p    *mpb.Progress
	bar  *mpb.Bar
	now  atomic.Pointer[string]
	once sync.Once
	busy bool
}

// newProgress starts a bar of total steps on standard error.
func (a *app) newProgress(total int) *progress {
	pr := &progress{}
	if !terminal(a.errOut) || os.Getenv("NO_COLOR") != "" || a.json {
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

// step says what is being done now; what was before is finished.
func (p *progress) step(doing string) {
	if p.bar == nil {
		return
	}
	p.now.Store(&doing)
	if p.busy {
		p.bar.Increment()
	}
	p.busy = true
}

// done takes the bar away. It may be called twice.
func (p *progress) done() {
	p.once.Do(func() {
		if p.bar != nil {
			p.bar.Abort(true)
			p.p.Wait()
		}
	})
}
