package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// percent is the percentage that the collector goes by.
func percent() int {
	p := debug.SetGCPercent(-1)
	debug.SetGCPercent(p)
	return p
}

func TestCollectorIsDelayedOnce(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(150))
	t.Setenv("GOGC", "")
	end := delayCollector()
	assert.Equal(t, 800, percent())
	end()
	assert.Equal(t, 150, percent(), "the command ended before a collection")

	defer delayCollector()()
	assert.Equal(t, 800, percent())
	runtime.GC()
	assert.Eventually(t, func() bool { return percent() == 150 }, 10*time.Second, time.Millisecond, "the heap was collected")

	t.Setenv("GOGC", "75")
	defer delayCollector()()
	assert.Equal(t, 150, percent(), "the user's setting")
}
