package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-onnx/berth/internal/plannertest"
)

// TestSmoke verifies a few thousand problems, twice with different numbers of workers: the figures are the same.
func TestSmoke(t *testing.T) {
	n := "3000"
	if testing.Short() {
		n = "300"
	}
	var one, three bytes.Buffer
	require.Equal(t, 0, command(context.Background(), []string{"-n", n, "-seed", "5", "-workers", "1"}, &one, io.Discard), one.String())
	require.Equal(t, 0, command(context.Background(), []string{"-n", n, "-seed", "5", "-workers", "3"}, &three, io.Discard))
	assert.Equal(t, one.String(), three.String())
	for _, kind := range plannertest.Kinds() {
		assert.Contains(t, one.String(), kind)
	}
}

func TestCommandLine(t *testing.T) {
	cases := []struct {
		name, args string
		status     int
		out, log   string
	}{
		{"help", "-h", 0, "", "usage: planstress"},
		{"unknown flag", "-x", 2, "", "usage: planstress"},
		{"unknown kind", "-kind loops", 2, "", "there is no kind of problem named"},
		{"stray argument", "-n 1 more", 2, "", "usage: planstress"},
		{"one kind", "-n 20 -kind ties", 0, "ties", ""},
		{"one problem", "-only 3 -kind partial", 0, "edges", ""},
		{"no problems", "-n 0", 0, "0.000%", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var out, log bytes.Buffer
			assert.Equal(t, c.status, command(context.Background(), strings.Fields(c.args), &out, &log))
			assert.Contains(t, out.String(), c.out)
			assert.Contains(t, log.String(), c.log)
		})
	}
}

// TestInterrupted stops a run that would take long: the figures so far are printed.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out bytes.Buffer
	assert.Equal(t, 130, command(ctx, []string{"-n", "1000000000"}, &out, io.Discard))
	assert.Contains(t, out.String(), "auto proved")
}

// TestTally puts faults into the figures: they are counted, listed and change the status.
func TestTally(t *testing.T) {
	a, b := newTally(), newTally()
	arena := make([]int64, len(a.members))
	bad := &plannertest.Outcome{Kind: "ties", Buffers: 3, Arena: arena, Findings: []*plannertest.Finding{{Fault: plannertest.Above, Planner: "auto", Reason: "because"}}}
	good := &plannertest.Outcome{Kind: "ties", Buffers: 5, Arena: arena}
	a.add(9, bad)
	b.add(2, good)
	b.add(1, bad)
	assert.True(t, newTally().clean())
	a.merge(b)
	assert.False(t, a.clean())
	var out bytes.Buffer
	require.NoError(t, a.write(&out))
	assert.Regexp(t, `auto above other\s+2\n`, out.String())
	assert.Regexp(t, `(?s)problem 1 \(ties\)\s+auto above other: auto: because.*problem 9`, out.String())
}
