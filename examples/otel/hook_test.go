package otel_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/examples/otel"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/testmodels"
)

// A request's span has a child for every node of the compiled program: each
// Relu has become the epilogue of the Gemm before it.
func Example() {
	spans := tracetest.NewInMemoryExporter() // programs send theirs to a collector
	tracer := trace.NewTracerProvider(trace.WithSyncer(spans)).Tracer("model")

	module, err := testmodels.Build("mlp")
	if err != nil {
		log.Fatal(err)
	}
	p, err := berth.FromModule(module).Compile(context.Background(), berth.WithHook(otel.Hook(tracer)))
	if err != nil {
		log.Fatal(err)
	}
	ctx, request := tracer.Start(context.Background(), "request")
	x, err := berth.Tensor(make([]float32, 4*64), 4, 64)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := p.RunValues(ctx, map[string]ndarray.Value{"x": x}); err != nil {
		log.Fatal(err)
	}
	request.End()
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name, s.Parent.SpanID() == request.SpanContext().SpanID())
	}
	// Output:
	// Gemm true
	// Gemm true
	// Gemm true
	// Softmax true
	// request false
}
