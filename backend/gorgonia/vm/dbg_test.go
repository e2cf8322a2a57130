package vm

import (
	"os"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-onnx/berth/backend/gorgonia/internal/graphs"
)

func TestDbg(t *testing.T) {
	for _, c := range graphs.Cases {
		if os.Getenv("CASE") != "" && os.Getenv("CASE") != c.Name {
			continue
		}
		b, err := c.Make(tensor.Float32, 32)
		if err != nil {
			t.Fatal(err)
		}
		m, err := New(b.Graph)
		if err != nil {
			t.Fatal(err)
		}
		r := m.prog.Report
		t.Logf("%s arena %d lb %d naive %d scratch %d packed %d ref %d", c.Name, r.ArenaBytes>>10, r.LowerBound>>10, r.NaiveBytes>>10, r.ScratchBytes>>10, r.PackedBytes>>10, r.ReferenceKernel)
		if os.Getenv("CASE") != "" {
			for _, in := range m.prog.Main.Instrs {
				var s []any
				for _, o := range in.In {
					if o >= 0 {
						s = append(s, m.prog.Slots[o].Value.Name, m.prog.Slots[o].Value.Type.String())
					}
				}
				t.Log(in.Kind, in.Node.Op, in.Node.Attrs, s, "->", m.prog.Slots[in.Out[0]].Value.Name, m.prog.Slots[in.Out[0]].Value.Type, "work", in.Work, in.Choice)
			}
		}
	}
}
