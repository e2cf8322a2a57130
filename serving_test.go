package berth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing/fstest"
	"time"

	"github.com/berth-onnx/berth"
	"github.com/berth-onnx/berth/ndarray"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// From a []float32 to a []float32: Tensor and As check types and sizes.
func ExampleTensor() {
	m := builtin("mlp") // berth.Open("model.onnx")
	pixels := make([]float32, 4*64)
	x, err := berth.Tensor(pixels, 4, 64)
	if err != nil {
		log.Fatal(err)
	}
	out, err := m.RunValues(context.Background(), map[string]ndarray.Value{"x": x})
	if err != nil {
		log.Fatal(err)
	}
	scores, err := berth.As[float32](out["probabilities"])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(scores), "probabilities")

	_, err = berth.Tensor(pixels, 1, 3, 224, 224)
	fmt.Println(err)
	_, err = berth.As[int64](out["probabilities"])
	fmt.Println(err)
	// Output:
	// 40 probabilities
	// float32[1,3,224,224] with too little data: have 256 elements, need 150528
	// the value is float32[4,10], its elements are not of Go type int64
}

// RunInto writes results into buffers of the caller's and allocates nothing.
func ExampleProgram_RunInto() {
	p, err := builtin("mlp").Compile(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	scores := make([]float32, 4*10)
	y, err := berth.Tensor(scores, 4, 10)
	if err != nil {
		log.Fatal(err)
	}
	in, out := map[string]ndarray.Value{"x": floats(0, 4, 64)}, map[string]*ndarray.Array{"probabilities": y}
	for range 3 {
		if err := p.RunInto(context.Background(), in, out); err != nil {
			log.Fatal(err)
		}
	}
	sum := float32(0)
	for _, v := range scores[:10] {
		sum += v
	}
	fmt.Printf("the first row adds up to %.3f\n", sum)
	// Output: the first row adds up to 1.000
}

// OpenFS reads a model, and weights in files beside it, from an embed.FS, a zip archive and the
// like.
func ExampleOpenFS() {
	dir, err := os.MkdirTemp("", "berth")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := builtin("mlp").Save(filepath.Join(dir, "mlp.onnx"), berth.SaveOptions{Metadata: map[string]string{"labels": "cat,dog"}}); err != nil {
		log.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "mlp.onnx"))
	if err != nil {
		log.Fatal(err)
	}
	files := fstest.MapFS{"models/mlp.onnx": {Data: data}} // or: //go:embed models

	m, err := berth.OpenFS(files, "models/mlp.onnx")
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	fmt.Println(strings.Split(m.Metadata().Properties["labels"], ","))
	// Output: [cat dog]
}

// A server: one program for all requests. Runs end with their request, and bad requests are told
// from failures by the type of the error.
func Example_server() {
	p, err := builtin("mlp").Compile(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var values []float32
		if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&values); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		x, err := berth.Tensor(values, 4, 64)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		out, err := p.RunValues(ctx, map[string]ndarray.Value{"x": x})
		switch {
		case errors.Is(err, berth.ErrInput):
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
			http.Error(w, "too late", http.StatusServiceUnavailable)
			return
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		scores, err := berth.As[float32](out["probabilities"])
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(scores)
	})

	ask := func(ctx context.Context, n int) int {
		body, err := json.Marshal(make([]float32, n))
		if err != nil {
			log.Fatal(err)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("POST", "/", bytes.NewReader(body)).WithContext(ctx))
		return w.Code
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(ask(context.Background(), 256), ask(context.Background(), 5), ask(gone, 256))
	// Output: 200 400 503
}

// Many shapes: a program whose dimensions stay open takes them all, and a few programs for the
// usual ones are faster. Here lengths are padded to the next of three.
func Example_manyShapes() {
	m := builtin("heads") // x: float32[N,S,24]
	ctx := context.Background()
	usual := map[int]*berth.Program{}
	for _, s := range []int{8, 16, 32} {
		p, err := m.Compile(ctx, berth.WithDim("N", 1), berth.WithDim("S", int64(s)))
		if err != nil {
			log.Fatal(err)
		}
		usual[s] = p
	}
	open, err := m.Compile(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range []int{5, 16, 30, 100} {
		p, length := open, s
		for _, most := range []int{8, 16, 32} {
			if s <= most {
				p, length = usual[most], most
				break
			}
		}
		x, err := berth.Tensor(make([]float32, length*24), 1, length, 24) // the first s rows are the data
		if err != nil {
			log.Fatal(err)
		}
		out, err := p.RunValues(ctx, map[string]ndarray.Value{"x": x})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(s, "as", out["y"], "planned:", p.Plan().DynamicValues == 0)
	}
	// Output:
	// 5 as float32[1,8,24] planned: true
	// 16 as float32[1,16,24] planned: true
	// 30 as float32[1,32,24] planned: true
	// 100 as float32[1,100,24] planned: false
}

// Streaming: the state of a model is an array that each run reads and replaces.
func Example_streaming() {
	g, err := ssa.ParseGraph(`graph "mean" { in %x: float32[1] in %state: float32[1] const %half: float32[] = 0.5
		%sum = Add(%x, %state) %stateN = Mul(%sum, %half) %y = Neg(%stateN) out %y, %stateN }`)
	if err != nil {
		log.Fatal(err)
	}
	if err := ops.InferGraph(g); err != nil {
		log.Fatal(err)
	}
	p, err := berth.FromModule(&ssa.Module{Graph: g}).Compile(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	s, err := p.NewSession() // one for each stream
	if err != nil {
		log.Fatal(err)
	}
	x, y, state := floats(8, 1), floats(0, 1), floats(0, 1)
	in := map[string]ndarray.Value{"x": x, "state": state}
	out := map[string]*ndarray.Array{"y": y, "stateN": state}
	for range 3 {
		if err := s.RunInto(context.Background(), in, out); err != nil {
			log.Fatal(err)
		}
		fmt.Println(y.Float(0))
	}
	// Output:
	// -4
	// -6
	// -7
}

// A hook that logs nodes which take long.
func ExampleWithHook() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "took" {
			return slog.Attr{} // for a test that knows the output
		}
		return a
	}}))
	hook := &berth.Hook{After: func(ctx context.Context, e berth.Event) {
		level := slog.LevelDebug
		if e.Duration > time.Minute {
			level = slog.LevelWarn
		}
		logger.LogAttrs(ctx, level, "node", slog.String("op", e.Op), slog.String("node", e.Node), slog.Duration("took", e.Duration), slog.Int64("bytes", e.Bytes))
	}}
	p, err := builtin("mlp").Compile(context.Background(), berth.WithHook(hook), berth.WithoutPasses())
	if err != nil {
		log.Fatal(err)
	}
	if _, err := p.RunValues(context.Background(), map[string]ndarray.Value{"x": floats(0, 4, 64)}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// level=DEBUG msg=node op=Gemm node=fc1/Gemm_0 bytes=2048
	// level=DEBUG msg=node op=Relu node=Relu_1 bytes=2048
	// level=DEBUG msg=node op=Gemm node=fc2/Gemm_2 bytes=2048
	// level=DEBUG msg=node op=Relu node=Relu_3 bytes=2048
	// level=DEBUG msg=node op=Gemm node=fc3/Gemm_4 bytes=160
	// level=DEBUG msg=node op=Softmax node=Softmax_5 bytes=160
}

// CPU profiles by operator: samples of the goroutine that runs carry the label "op". Work that a
// node hands to other threads has no label; WithThreads(1) keeps all of it here.
func ExampleWithHook_pprof() {
	hook := &berth.Hook{
		Before: func(ctx context.Context, e berth.Event) {
			pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels("op", e.Op)))
		},
		After: func(ctx context.Context, _ berth.Event) { pprof.SetGoroutineLabels(ctx) },
	}
	p, err := builtin("mlp").Compile(context.Background(), berth.WithHook(hook))
	if err != nil {
		log.Fatal(err)
	}
	_, err = p.RunValues(context.Background(), map[string]ndarray.Value{"x": floats(0, 4, 64)})
	fmt.Println(err) // go tool pprof -tagfocus op=Gemm cpu.pprof
	// Output: <nil>
}
