//go:build linux && (amd64 || arm64)

// Package drivertest has a libcuda for tests that records its calls, so that what the driver is asked for shows without a GPU.
package drivertest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

// source is in C. Its name is none that the go command takes for a part of the package.
//
//go:embed stub.c.txt
var source []byte

// Version is the version of CUDA that the stub is of, if it is not told another.
const Version = 12010

// Stub is a shared object with the functions of libcuda.
type Stub struct {
	Library string
	reset   func(fail string, with, version, devices int32)
	record  func() string

	Hold  func(on int32)    // has events be ready, and memory be freed, only when it is called with 0
	Major func(major int32) // sets the compute capability
}

// Build compiles the stub; without gcc the test is skipped.
func Build(t *testing.T, options ...string) *Stub {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc, which builds the stub of libcuda, is not installed")
	}
	dir := t.TempDir()
	s := &Stub{Library: filepath.Join(dir, "libcuda.so.1")}
	text := filepath.Join(dir, "stub.c")
	require.NoError(t, os.WriteFile(text, source, 0o600))
	out, err := exec.Command(gcc, append([]string{"-shared", "-fPIC", "-O1", "-Wall", "-pthread", "-o", s.Library, text}, options...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	handle, err := purego.Dlopen(s.Library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	require.NoError(t, err)
	purego.RegisterLibFunc(&s.reset, handle, "stub_reset")
	purego.RegisterLibFunc(&s.record, handle, "stub_record")
	purego.RegisterLibFunc(&s.Hold, handle, "stub_hold")
	purego.RegisterLibFunc(&s.Major, handle, "stub_major")
	s.OK()
	return s
}

// OK has no call fail, and forgets what was recorded.
func (s *Stub) OK() { s.Reset("", 0, Version, 2) }

// Reset has the calls of a name fail with a code, and tells the version of CUDA and the number of devices.
func (s *Stub) Reset(fail string, with, version, devices int32) {
	s.reset(fail, with, version, devices)
}

// Recorded is what has been recorded since it was last forgotten, a call a line.
func (s *Stub) Recorded() string { return s.record() }

// Since is what has been recorded since the last call, a call a line.
func (s *Stub) Since() []string {
	out := strings.Split(strings.TrimSpace(s.record()), "\n")
	s.OK()
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}
