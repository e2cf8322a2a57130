package main

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"slices"
)

// lossCurve is a page with the losses of all steps.
type lossCurve struct {
	model  string
	losses []float64
}

const curvePage = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>%[1]s: losses</title>
<style>
body{font:14px system-ui,sans-serif;margin:24px;color:#222;background:#fff}
svg{border:1px solid #ccc;background:#fafafa;max-width:100%%}
polyline{fill:none;stroke:#27c;stroke-width:1.5}
</style>
<h1>%[1]s</h1>
<p>%[2]d steps, loss from %.6[3]g to %.6[4]g</p>
<svg viewBox="0 0 960 480" width="960" height="480">
<polyline points="%[5]s"/>
<text x="4" y="16">%.4[6]g</text><text x="4" y="474">%.4[7]g</text>
</svg>
</html>
`

// write draws steps to the right and losses upwards, from the least to the largest.
func (c lossCurve) write(w io.Writer) error {
	low, high := slices.Min(c.losses), slices.Max(c.losses)
	var points bytes.Buffer
	for i, v := range c.losses {
		x := 960 * float64(i) / float64(max(len(c.losses)-1, 1))
		y := 240.0
		if high > low {
			y = 470 - 460*(v-low)/(high-low)
		}
		fmt.Fprintf(&points, "%.1f,%.1f ", x, y)
	}
	_, err := fmt.Fprintf(w, curvePage, html.EscapeString(c.model), len(c.losses), c.losses[0], c.losses[len(c.losses)-1], points.String(), high, low)
	return err
}
