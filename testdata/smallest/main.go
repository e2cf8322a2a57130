// The command smallest runs a model on zeros: the least that a program with berth does.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
)

func main() {
	m, err := berth.Open(os.Args[1])
	if err != nil {
		fatal(err)
	}
	defer m.Close()
	in := map[string]ndarray.Value{}
	for _, p := range m.Inputs() {
		shape, _ := p.Type.Static()
		if in[p.Name], err = ndarray.New(p.Type.DType, shape...); err != nil {
			fatal(err)
		}
	}
	out, err := m.RunValues(context.Background(), in)
	if err != nil {
		fatal(err)
	}
	fmt.Println(out)
}

// fatal ends the program. Package log, which programs need not link, would be a part of what is measured.
func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
