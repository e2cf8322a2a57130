package onnximport

import "fmt"

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
