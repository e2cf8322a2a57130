package berth

import (
	"io"

	"github.com/berth-onnx/berth/onnxexport"
	"github.com/berth-onnx/berth/program"
	"github.com/berth-onnx/berth/rewrite"
)

// InputError reports an input that does not fit a program.
type InputError = program.InputError

// CacheError reports a cache without room for the rows of a run.
type CacheError = program.CacheError

// ExportError says why a model can not be written as ONNX.
type ExportError = onnxexport.ExportError

// PassStat is one run of one rewriting pass over a whole model.
type PassStat = rewrite.PassStat

// Dump records the graph after every pass; see [WithDump]. The zero value is ready to use.
type Dump struct{ d rewrite.Dump }

// WriteHTML writes one self-contained page: a column per pass, those that changed nothing folded to a narrow strip, lines
// that are new against the last change marked.
func (d *Dump) WriteHTML(w io.Writer) error { return d.d.WriteHTML(w) }
