package report_test

import (
	"bytes"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/program"
	"github.com/berth-onnx/berth/internal/report"
	"github.com/berth-onnx/berth/testmodels"
)

// drawn is a box of a page: left, top, right, bottom.
type drawn struct{ x0, y0, x1, y1 float64 }

func boxesOf(t *testing.T, page string) []drawn {
	var out []drawn
	for _, m := range regexp.MustCompile(`<rect x="([^"]+)" y="([^"]+)" width="([^"]+)" height="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		var v [4]float64
		for i := range v {
			var err error
			v[i], err = strconv.ParseFloat(m[1+i], 64)
			require.NoError(t, err)
		}
		out = append(out, drawn{v[0], v[1], v[0] + v[2], v[1] + v[3]})
	}
	return out
}

// TestHTML draws plans of models with branches and loops: every block is there, in
// the picture, and no two boxes cover each other.
func TestHTML(t *testing.T) {
	const eps = 1e-6
	for _, name := range []string{"unet", "if-results", "loop-delay", "lstm-loop"} {
		for _, parallel := range []bool{false, true} {
			t.Run(name+"/"+map[bool]string{false: "one order", true: "every order"}[parallel], func(t *testing.T) {
				m, err := testmodels.Build(name)
				require.NoError(t, err)
				p, err := program.Compile(t.Context(), m.Graph, program.Options{ParallelSafe: parallel})
				require.NoError(t, err)
				var page bytes.Buffer
				require.NoError(t, report.HTML(&page, p))
				assert.Contains(t, page.String(), "<h1>"+name+"</h1>")
				boxes := boxesOf(t, page.String())
				assert.GreaterOrEqual(t, len(boxes), p.Report.Blocks, "a box per block at least")
				for i, a := range boxes {
					assert.True(t, a.x0 >= 0 && a.x1 <= 1200+eps && a.y0 >= -eps && a.y1 <= 640+eps, "box %d is out of the picture: %v", i, a)
					for j, b := range boxes[:i] {
						over := a.x0 < b.x1-eps && b.x0 < a.x1-eps && a.y0 < b.y1-eps && b.y0 < a.y1-eps
						assert.False(t, over, "boxes %d and %d cover each other: %v %v", j, i, b, a)
					}
				}
			})
		}
	}
}
