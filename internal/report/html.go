// Package report draws a memory plan: an HTML page with the arena over time.
package report

import (
	"bytes"
	"fmt"
	"html"
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
// its live range. It is written without a template: package text/template calls methods by their names, for which the
// linker keeps the methods of all types.
func HTML(w io.Writer, p *program.Program) error {
	var b bytes.Buffer
	name, r, points := html.EscapeString(p.Graph.Name), p.Report, len(p.Timeline.Steps)
	proof := ""
	if r.Proven && r.Dynamic == 0 {
		proof = ": proven optimal"
	}
	fmt.Fprintf(&b, pageHead, name, name, html.EscapeString(r.Planner), r.ArenaBytes, r.LowerBound, proof, r.NaiveBytes, r.Blocks, r.Folds, points)
	fmt.Fprintf(&b, "<svg viewBox=\"0 0 %[1]v %[2]v\" width=\"%[1]v\" height=\"%[2]v\">\n", chartWidth, chartHeight)
	for _, x := range boxes(p.Problem, p.Solution, points) {
		fmt.Fprintf(&b, "<rect x=\"%v\" y=\"%v\" width=\"%v\" height=\"%v\" fill=\"%s\"><title>%s</title></rect>\n", x.X, x.Y, x.W, x.H, x.Fill, html.EscapeString(x.Title))
	}
	b.WriteString("</svg>\n</html>\n")
	_, err := b.WriteTo(w)
	return err
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

const pageHead = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>%s: memory plan</title>
<style>
body{font:14px system-ui,sans-serif;margin:24px;color:#222;background:#fff}
svg{border:1px solid #ccc;background:#fafafa;max-width:100%%}
rect{stroke:#fff;stroke-width:.5}rect:hover{stroke:#000;stroke-width:1.5}
td{padding:2px 14px 2px 0}
</style>
<h1>%s</h1>
<table>
<tr><td>planner<td>%s
<tr><td>arena<td>%d bytes, lower bound %d%s
<tr><td>every tensor its own memory<td>%d bytes
<tr><td>blocks<td>%d, %d results written over operands
</table>
<p>Steps from left to right (%d), arena bytes from bottom to top. Point at a box for its value.</p>
`
