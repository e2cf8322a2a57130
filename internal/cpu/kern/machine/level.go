package machine

import (
	"fmt"
	"os"
	"sync/atomic"
)

// Level names a set of kernels by the instructions they need.
type Level uint8

// The levels, in ascending order of what they demand of the machine.
const (
	LevelGeneric Level = iota // plain Go
	LevelAVX2                 // AVX2, FMA and F16C: 8 float32 lanes
	LevelAVX512               // AVX-512 F, BW, DQ and VL: 16 float32 lanes
	NumLevels
)

var levelNames = [NumLevels]string{"generic", "avx2", "avx512"}

// String returns the name used by the environment variable BERTH_CPU.
func (l Level) String() string {
	if l < NumLevels {
		return levelNames[l]
	}
	return fmt.Sprintf("level(%d)", uint8(l))
}

// ParseLevel reads a level's name.
func ParseLevel(s string) (Level, error) {
	for i, n := range levelNames {
		if s == n {
			return Level(i), nil
		}
	}
	return 0, &LevelError{Asked: s, Best: Best()}
}

// LevelError says that a level was asked for which does not exist or which
// this machine cannot run.
type LevelError struct {
	Asked string
	Best  Level
}

// Error names the level asked for and those that can be had.
func (e *LevelError) Error() string {
	return fmt.Sprintf("CPU level %q cannot be used here; choose one of %v", e.Asked, Levels())
}

// active is the Level in use.
var active atomic.Uint32

var startError error

// init picks the level: the best of the machine, or what BERTH_CPU lowers it to.
func init() {
	l := Best()
	if s := os.Getenv("BERTH_CPU"); s != "" {
		asked, err := ParseLevel(s)
		switch {
		case err != nil:
			startError = err
		case asked > l:
			startError = &LevelError{Asked: s, Best: l}
		default:
			l = asked
		}
	}
	active.Store(uint32(l))
}

// Best returns the highest level this machine can run.
func Best() Level { return machineLevel }

// Levels returns every level this machine can run, in ascending order.
func Levels() []Level {
	ls := make([]Level, 0, NumLevels)
	for l := LevelGeneric; l <= Best(); l++ {
		ls = append(ls, l)
	}
	return ls
}

// Active returns the level in use.
func Active() Level { return Level(active.Load()) }

// StartError returns what was wrong with the environment variable BERTH_CPU
// when the process started, or nil. With an error the best level is in use.
func StartError() error { return startError }

// Use switches the level for everything prepared from now on. Plans and packed
// constants made before keep their own. It is meant for tests and benchmarks.
func Use(l Level) error {
	if l > Best() {
		return &LevelError{Asked: l.String(), Best: Best()}
	}
	active.Store(uint32(l))
	return nil
}
