package main

import (
	"context"
	"io"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/internal/report"
)

// memoryMap writes the page with the arena over time.
func (a *app) memoryMap(ctx context.Context, m *berth.Model, path string, opts []berth.Option) error {
	p, err := m.Compile(ctx, append(opts, berth.WithoutPasses())...)
	if err != nil {
		return err
	}
	return writeFile(path, func(w io.Writer) error { return report.HTML(w, p.Compiled()) })
}
