// Package otel is an example, in a module of its own so that berth does not depend on OpenTelemetry:
// a hook that makes a span of every node of a run.
package otel

import (
	"context"

	"github.com/berth-onnx/berth"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Hook makes a span of every node, below the span of the run's context. Nodes of runs without a
// recording span cost nothing but the call.
func Hook(tracer trace.Tracer) *berth.Hook {
	return &berth.Hook{After: func(ctx context.Context, e berth.Event) {
		if !trace.SpanFromContext(ctx).IsRecording() {
			return
		}
		_, span := tracer.Start(ctx, e.Op, trace.WithTimestamp(e.Start), trace.WithAttributes(
			attribute.String("onnx.node", e.Node), attribute.String("onnx.domain", e.Domain), attribute.Int64("onnx.result_bytes", e.Bytes)))
		if e.Err != nil {
			span.SetStatus(codes.Error, e.Err.Error())
		}
		span.End(trace.WithTimestamp(e.Start.Add(e.Duration)))
	}}
}
