package onnximport

import (
	"fmt"

	"github.com/berth-onnx/berth/ssa"
)

// newestIR is the newest IR version whose rules this package follows.
const newestIR = 14

// newestOpset is the newest version of each known operator-set domain.
var newestOpset = map[string]int{
	"":                         28,
	"ai.onnx.ml":               5,
	"ai.onnx.preview":          1,
	"ai.onnx.preview.training": 1,
	"com.microsoft":            1,
}

// cleanDomain maps the two spellings of the default domain to one.
func cleanDomain(d string) string {
	if d == "ai.onnx" {
		return ""
	}
	return d
}

func displayDomain(d string) string {
	if d == "" {
		return "ai.onnx"
	}
	return d
}

func (imp *importer) warn(format string, args ...any) {
	const most = 1000
	if mod := imp.module; len(mod.Warnings) < most {
		mod.Warnings = append(mod.Warnings, fmt.Sprintf(format, args...))
	}
}

// UnknownVersions says which versions of the file format and of operator sets are newer than the newest that berth knows.
// Other tools refuse such files.
func UnknownVersions(ir int64, opsets []ssa.Opset) (out []string) {
	if ir > newestIR {
		out = append(out, fmt.Sprintf("the file has IR version %d, newer than %d, the newest known", ir, newestIR))
	}
	for _, o := range opsets {
		if known := newestOpset[o.Domain]; known > 0 && o.Version > known {
			out = append(out, fmt.Sprintf("the file uses version %d of operator set %q, newer than %d, the newest known: operators that changed since are taken in their older meaning",
				o.Version, displayDomain(o.Domain), known))
		}
	}
	return out
}
