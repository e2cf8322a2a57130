package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
)

// origin is what exported figures come from, so that they can be made again.
type origin struct {
	Model   string `json:"model"`
	Version string `json:"version"` // of berth
	SHA256  string `json:"sha256"`  // of the file, without its data files; "" for a built-in model
	Shapes  string `json:"shapes"`  // of the inputs, open dimensions by their names
	Seed    int64  `json:"seed"`    // of random inputs
}

// originFields are the fields in the order of CSV, where they come last.
var originFields = []string{"version", "sha256", "shapes", "seed"}

func (o *origin) values() []string {
	return []string{o.Version, o.SHA256, plain(o.Shapes), fmt.Sprint(o.Seed)}
}

// markdown is the line above a table.
func (o *origin) markdown() string {
	hash := ""
	if o.SHA256 != "" {
		hash = " (SHA-256 `" + o.SHA256 + "`)"
	}
	return fmt.Sprintf("`%s`%s; inputs %s; seed %d; berth %s", o.Model, hash, o.Shapes, o.Seed, o.Version)
}

// originOf describes a model, or an instance file if m is nil.
func (a *app) originOf(name string, m *berth.Model, have map[string]ndarray.Value) (o origin, err error) {
	o = origin{Model: name, Version: berth.Version(), Seed: a.seed}
	if !strings.HasPrefix(name, "builtin:") {
		if o.SHA256, err = hashOf(a.ctx, name); err != nil {
			return o, err
		}
	}
	if m == nil {
		return o, nil
	}
	shapes, dims := maps.Clone(a.shapes), a.boundDims(m, have)
	var parts []string
	for _, in := range m.Inputs() {
		if arr, ok := have[in.Name].(*ndarray.Array); ok {
			shapes[in.Name] = arr.Shape
		}
		if shapes[in.Name] != nil {
			parts = append(parts, shapesText(shapes, []string{in.Name}, ""))
			continue
		}
		var text []string
		for _, d := range in.Type.Bind(dims).Shape {
			text = append(text, d.String())
		}
		parts = append(parts, in.Name+"="+strings.Join(text, "x"))
	}
	o.Shapes = strings.Join(parts, " ")
	return o, nil
}

func hashOf(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	const piece = 1 << 20
	h, n := sha256.New(), int64(piece)
	for n == piece {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if n, err = io.CopyN(h, f, piece); err != nil && err != io.EOF {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
