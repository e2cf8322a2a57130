// Command onnxgo compares berth with Gorgonia where a program for onnx-go runs its model: it decodes a model with the backend
// that comes with onnx-go and with berth's, and prints peak memory, time and whether the results are the same.
//
//	go run ./internal/tools/onnxgo                    models of the kinds that onnx-go's examples use
//	go run ./internal/tools/onnxgo --json model.onnx  others, with random float inputs, open dimensions 1
//
// Memory is measured in a process for each model and backend, while the collector runs without a pause: live is what is
// reachable on the heap, resident what the system counts. Times are of runs that take turns in one process.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/jedib0t/go-pretty/v6/table"
)

// row is what is known of one model with one backend.
type row struct {
	Model     string  `json:"model"`
	Backend   string  `json:"backend"`
	Error     string  `json:"error,omitempty"`
	FileBytes int     `json:"file_bytes"`
	Decoded   int64   `json:"decoded_bytes"`  // live after decoding, the file's bytes not counted
	Peak      int64   `json:"peak_bytes"`     // live at most in the first run, which compiles, likewise
	Running   int64   `json:"running_bytes"`  // live at most in later runs, likewise
	Resident  int64   `json:"resident_bytes"` // at most, of the process; 0 where the system does not say
	Arena     int64   `json:"arena_bytes,omitempty"`
	FirstRun  float64 `json:"first_run_ms"`
	Run       float64 `json:"run_ms"`  // the fastest
	Differs   float64 `json:"differs"` // largest difference of an output element from berth's

	outputs [][]float32
}

func main() {
	asJSON := flag.Bool("json", false, "print JSON")
	runs := flag.Int("runs", 20, "timed runs of each backend")
	child := flag.String("measure-memory", "", "measure the memory of one backend with the model given, and print it (used by the command itself)")
	flag.Parse()
	var err error
	if *child != "" {
		err = measureMemory(*child, flag.Arg(0))
	} else {
		err = compare(os.Stdout, flag.Args(), *runs, *asJSON)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "onnxgo:", err)
		os.Exit(1)
	}
}

// compare prints a row for each model and backend.
func compare(w io.Writer, paths []string, runs int, asJSON bool) error {
	models, err := modelsOf(paths)
	if err != nil {
		return err
	}
	var rows []*row
	for _, m := range models {
		pair, err := m.measure(runs)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		rows = append(rows, pair...)
	}
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(rows)
	}
	printTable(w, rows)
	return nil
}

func printTable(w io.Writer, rows []*row) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.AppendHeader(table.Row{"model", "backend", "file", "decoded", "first run", "later runs", "resident", "arena", "first run", "later run", "differs"})
	for _, r := range rows {
		if r.Error != "" {
			t.AppendRow(table.Row{r.Model, r.Backend, bytes(int64(r.FileBytes)), r.Error})
			continue
		}
		t.AppendRow(table.Row{r.Model, r.Backend, bytes(int64(r.FileBytes)), bytes(r.Decoded), bytes(r.Peak), bytes(r.Running), bytes(r.Resident), bytes(r.Arena),
			fmt.Sprintf("%.2f ms", r.FirstRun), fmt.Sprintf("%.3f ms", r.Run), fmt.Sprintf("%.1e", r.Differs)})
	}
	t.Render()
}

// bytes prints a number of bytes.
func bytes(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n > 0:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return ""
}
