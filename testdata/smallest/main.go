// The command smallest runs a model on zeros: the least that a program with berth does.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
)

func main() {
	m, err := berth.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	in := map[string]ndarray.Value{}
	for _, p := range m.Inputs() {
		shape, _ := p.Type.Static()
		if in[p.Name], err = ndarray.New(p.Type.DType, shape...); err != nil {
			log.Fatal(err)
		}
	}
	out, err := m.RunValues(context.Background(), in)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out)
}
