package main

import (
	"io"
	"os"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress is a bar on a terminal and nothing elsewhere.
type progress struct {
	p   *mpb.Progress
	bar *mpb.Bar
	now string
}

// newProgress starts a bar of total steps on standard error.
func (a *app) newProgress(total int) *progress {
	pr := &progress{}
	out := io.Discard
	if terminal(a.errOut) && os.Getenv("NO_COLOR") == "" && !a.json {
		out = a.errOut
	}
	pr.p = mpb.New(mpb.WithOutput(out), mpb.WithWidth(32))
	pr.bar = pr.p.AddBar(int64(total), mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.CountersNoUnit("%d/%d ")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return " " + pr.now })))
	return pr
}

// step finishes one step; doing names the next.
func (p *progress) step(doing string) {
	p.now = doing
	p.bar.Increment()
}

func (p *progress) done() {
	p.bar.Abort(true)
	p.p.Wait()
}
