package rescue

import (
	"cmp"
	"runtime/debug"
)

// Share calls work in several goroutines at once, the caller's among them, and returns when all have: nil, or one of their
// errors. Like a panic, a fault in a mapped file that was cut short is an error.
func Share(goroutines int, work func() error) error {
	guarded := func() (err error) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer Into(&err)
		return work()
	}
	others := make(chan error)
	for range goroutines - 1 {
		Go(func() { others <- guarded() })
	}
	err := guarded()
	for range goroutines - 1 {
		err = cmp.Or(err, <-others)
	}
	return err
}
