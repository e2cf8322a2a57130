// Package report draws a memory plan: an HTML page with the arena over time.
package report

import (
	"fmt"
	"html/template"
	"io"

	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/planner"
)

// box is one uninterrupted part of a block's live range in the drawing.
type box struct {
	X, Y, W, H float64
	Fill       string
	Title      string
}

const (
	chartWidth  = 1200.0
	chartHeight = 640.0
)

// HTML writes a self-contained page: time to the right, arena bytes upwards, one box per block and uninterrupted part of
// its live range.
func HTML(w io.Writer, p *program.Program) error {
	page := struct {
		Name          string
		Report        program.Report
		Width, Height float64
		Boxes         []box
		Points        int
	}{Name: p.Graph.Name, Report: p.Report, Width: chartWidth, Height: chartHeight, Points: len(p.Timeline.Steps)}
	page.Boxes = boxes(p.Problem, p.Solution, len(p.Timeline.Steps))
	return pageTemplate.Execute(w, page)
}

func boxes(prob *planner.Problem, sol *planner.Solution, points int) []box {
	var out []box
	sx := chartWidth / float64(max(points, 1))
	sy := chartHeight / float64(max(sol.ArenaBytes, 1))
	for i, b := range prob.Buffers {
		at := b.Lo
		draw := func(lo, hi int) {
			if lo >= hi {
				return
			}
			out = append(out, box{X: float64(lo) * sx, W: float64(hi-lo) * sx, H: float64(b.Size) * sy,
				Y:     chartHeight - float64(sol.Offsets[i]+b.Size)*sy,
				Fill:  fmt.Sprintf("hsl(%d 55%% 62%%)", i*47%360),
				Title: fmt.Sprintf("%s: %d bytes at %d, steps %d to %d", b.Name, b.Size, sol.Offsets[i], lo, hi-1)})
		}
		for _, h := range b.Holes {
			draw(at, h.Lo)
			at = h.Hi
		}
		draw(at, b.Hi)
	}
	return out
}

var pageTemplate = template.Must(template.New("plan").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{{.Name}}: memory plan</title>
<style>
body{font:14px system-ui,sans-serif;margin:24px;color:#222;background:#fff}
svg{border:1px solid #ccc;background:#fafafa;max-width:100%}
rect{stroke:#fff;stroke-width:.5}rect:hover{stroke:#000;stroke-width:1.5}
td{padding:2px 14px 2px 0}
</style>
<h1>{{.Name}}</h1>
<table>
<tr><td>planner<td>{{.Report.Planner}}
<tr><td>arena<td>{{.Report.ArenaBytes}} bytes, lower bound {{.Report.LowerBound}}{{if and .Report.Proven (not .Report.Dynamic)}}: proven optimal{{end}}
<tr><td>every tensor its own memory<td>{{.Report.NaiveBytes}} bytes
<tr><td>blocks<td>{{.Report.Blocks}}, {{.Report.Folds}} results written over operands
</table>
<p>Steps from left to right ({{.Points}}), arena bytes from bottom to top. Point at a box for its value.</p>
<svg viewBox="0 0 {{.Width}} {{.Height}}" width="{{.Width}}" height="{{.Height}}">
{{range .Boxes}}<rect x="{{.X}}" y="{{.Y}}" width="{{.W}}" height="{{.H}}" fill="{{.Fill}}"><title>{{.Title}}</title></rect>
{{end}}</svg>
</html>
`))
