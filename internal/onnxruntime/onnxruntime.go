// Package onnxruntime runs a model in ONNX Runtime, in a Python process that is started for it, and measures it there. The
// process is asked in JSON, a line for each question and each answer; the script that answers is part of this package.
//
//	Start ─▶ version     Open ─▶ time to load     Time ─▶ times of runs     Outputs ─▶ results     Profile ─▶ times of nodes
package onnxruntime

import (
	"bufio"
	"context"
	_ "embed" // the script
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/berth-onnx/berth/internal/onnxwire"
)

//go:embed child.py
var script string

// Error says that the process could not be started, ended, or did not answer as it should. It names the interpreter.
type Error struct {
	Python string
	Err    error
}

// Error names the interpreter and what went wrong.
func (e *Error) Error() string { return fmt.Sprintf("ONNX Runtime in %s: %v", e.Python, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Process is a Python process with ONNX Runtime. It serves one caller at a time.
type Process struct {
	Version string // of ONNX Runtime
	Python  string // the interpreter

	ctx  context.Context
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	pipe io.Closer
	said *lastWords
	stop func() bool
	once sync.Once
}

// Start starts an interpreter, by its path or by a name to be found in PATH, and imports ONNX Runtime there. The end of the
// context ends the process.
func Start(ctx context.Context, python string) (*Process, error) {
	path, err := exec.LookPath(python)
	if err != nil {
		return nil, &Error{python, fmt.Errorf("%w; name an interpreter with numpy and onnxruntime", errors.Unwrap(err))}
	}
	p := &Process{Python: path, ctx: ctx, cmd: exec.Command(path, "-u", "-c", script), said: &lastWords{}}
	p.cmd.Stderr = p.said
	p.cmd.WaitDelay = time.Second
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, &Error{path, err}
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, &Error{path, err}
	}
	p.out, p.pipe = bufio.NewReader(out), out
	if err := p.cmd.Start(); err != nil {
		return nil, &Error{path, err}
	}
	p.stop = context.AfterFunc(ctx, p.kill)
	var hello struct{ Version string }
	if err := p.ask(map[string]any{"do": "hello"}, &hello); err != nil {
		p.Close()
		return nil, err
	}
	p.Version = hello.Version
	return p, nil
}

// kill ends the process, and what waits for its answer.
func (p *Process) kill() {
	p.cmd.Process.Kill()
	p.pipe.Close()
}

// Close ends the process.
func (p *Process) Close() {
	p.once.Do(func() {
		defer p.stop()
		p.in.Close() // the script ends with its questions
		late := time.AfterFunc(time.Second, p.kill)
		defer late.Stop()
		p.cmd.Wait()
	})
}

// ask asks a question and reads the answer.
func (p *Process) ask(question map[string]any, answer any) error {
	line, err := json.Marshal(question)
	if err == nil {
		_, err = p.in.Write(append(line, '\n'))
	}
	var got []byte
	if err == nil || errors.Is(err, syscall.EPIPE) { // it may have said why it reads no more
		got, err = p.out.ReadBytes('\n')
	}
	switch {
	case p.ctx.Err() != nil:
		return p.ctx.Err()
	case err != nil:
		p.Close() // and what it said last has arrived
		return &Error{p.Python, fmt.Errorf("it ended without an answer%s", p.said.text())}
	}
	var failed struct{ Error string }
	if err := json.Unmarshal(got, &failed); err != nil {
		return &Error{p.Python, fmt.Errorf("an answer that is no JSON object: %q", brief(string(got)))}
	}
	if failed.Error != "" {
		return &Error{p.Python, errors.New(brief(failed.Error))}
	}
	if err := json.Unmarshal(got, answer); err != nil {
		return &Error{p.Python, fmt.Errorf("an answer of another form: %w", err)}
	}
	return nil
}

// Opened is what opening a model took.
type Opened struct {
	LoadNanos int64 `json:"load_ns"`
	StartRSS  int64 `json:"start_rss_bytes"` // largest resident size before, in bytes
}

// Open opens a model file with so many threads for every node, and takes inputs from .npy files by their names. The process writes
// its files into dir.
func (p *Process) Open(model, dir string, inputs map[string]string, threads int) (o Opened, err error) {
	return o, p.ask(map[string]any{"do": "open", "model": model, "dir": dir, "inputs": inputs, "threads": threads}, &o)
}

// Timed are the times of runs, and the largest resident size so far, in bytes.
type Timed struct {
	Nanos   []int64 `json:"ns"`
	PeakRSS int64   `json:"peak_rss_bytes"`
}

// Time runs the model for so many seconds.
func (p *Process) Time(seconds float64) (t Timed, err error) {
	if err := p.ask(map[string]any{"do": "time", "seconds": seconds}, &t); err != nil {
		return t, err
	}
	if len(t.Nanos) == 0 {
		return t, &Error{p.Python, errors.New("it timed no run")}
	}
	return t, nil
}

// Outputs runs the model once. Its outputs that are numbers are in .npy files, by their names; these lie in the folder of Open.
func (p *Process) Outputs() (files map[string]string, err error) {
	var r struct{ Files map[string]string }
	err = p.ask(map[string]any{"do": "outputs"}, &r)
	return r.Files, err
}

// profile is the time of every node of the optimized graph in a run.
type profile struct {
	Graph string `json:"graph"` // the file of the optimized graph, "" if it could not be written
	Nodes []struct {
		Name  string `json:"name"`
		Op    string `json:"op"`
		Nanos int64  `json:"ns"`
	} `json:"nodes"` // in the order in which they ran
}

// Profile times the nodes of the optimized graph over so many runs, in a session of its own. The times of branches and loops contain
// those of their bodies' nodes, so they are left out.
func (p *Process) Profile(runs int) ([]Node, error) {
	var r profile
	if err := p.ask(map[string]any{"do": "profile", "runs": runs}, &r); err != nil {
		return nil, err
	}
	return r.nodes(p.ctx), nil
}

// nodes finds the values of the nodes in the file of the graph. Nodes without a name are called by their operator and a number
// in a profile; they run in the order of the file.
func (r profile) nodes(ctx context.Context) (nodes []Node) {
	byName, unnamed := map[string]*onnxwire.Node{}, map[string][]*onnxwire.Node{}
	if f, err := onnxwire.OpenWith(ctx, r.Graph, onnxwire.MapFile); r.Graph != "" && err == nil {
		defer f.Close()
		for _, n := range withBodies(f.Model.Graph) {
			if n.Name == "" {
				unnamed[n.OpType] = append(unnamed[n.OpType], n)
			} else {
				byName[n.Name] = n
			}
		}
	}
	for _, n := range r.Nodes {
		if n.Op == "If" || n.Op == "Loop" || n.Op == "Scan" {
			continue
		}
		node := Node{Name: n.Name, Op: n.Op, Nanos: n.Nanos}
		w := byName[n.Name]
		if list := unnamed[n.Op]; w == nil && len(list) > 0 {
			w, unnamed[n.Op] = list[0], list[1:]
		}
		if w != nil {
			node.In, node.Out = w.Inputs, w.Outputs
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// withBodies lists the nodes of a graph, those of bodies before the node that they belong to.
func withBodies(g *onnxwire.Graph) (nodes []*onnxwire.Node) {
	if g == nil {
		return nil
	}
	for _, n := range g.Nodes {
		for _, a := range n.Attributes {
			nodes = append(nodes, withBodies(a.G)...)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// lastWords keeps the end of what a process writes.
type lastWords struct {
	mu  sync.Mutex
	end []byte
}

// Write keeps the last bytes.
func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	const most = 4 << 10
	w.end = append(w.end, p...)
	w.end = w.end[max(0, len(w.end)-most):]
	return len(p), nil
}

// text is the last line, behind a colon.
func (w *lastWords) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(w.end)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return ": " + brief(last)
	}
	return ""
}

// brief is a text on one line, its beginning if it is long.
func brief(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	const most = 300
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
