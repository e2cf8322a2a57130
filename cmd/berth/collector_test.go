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
	end := new(collector).delay()
	assert.Equal(t, 400, percent())
	end()
	assert.Equal(t, 150, percent(), "the command ended before a collection")

	defer new(collector).delay()()
	assert.Equal(t, 400, percent())
	runtime.GC()
	assert.Eventually(t, func() bool { return percent() == 150 }, 10*time.Second, time.Millisecond, "the heap was collected")

	t.Setenv("GOGC", "75")
	c := new(collector)
	defer c.delay()()
	c.space(1 << 30)
	assert.Equal(t, 150, percent(), "the user's setting")
}

func TestCollectionsAreSpaced(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(150))
	t.Setenv("GOGC", "")
	c := new(collector)
	end := c.delay()
	c.space(1 << 30)
	assert.Equal(t, 25600, percent(), "a gibibyte beyond the runtime's first heap")
	live := make([]byte, 1<<29)
	for range 2 {
		runtime.GC()
		assert.Eventually(t, func() bool { return percent() <= 200 && percent() > 150 }, 10*time.Second, time.Millisecond, "a gibibyte beyond what is in use")
	}
	runtime.KeepAlive(live)
	live = nil
	end()
	runtime.GC()
	time.Sleep(10 * time.Millisecond)
	assert.Equal(t, 150, percent(), "the command ended")

	c.space(1 << 20)
	assert.Equal(t, 150, percent(), "not less than the process had")
	c.end()
}
