//go:build !amd64

package machine

// pause delays a busy wait by some tens of nanoseconds. It touches no memory that workers share.
func pause() {
	for range 64 {
		noop()
	}
}

// noop is a call that the compiler keeps.
//
//go:noinline
func noop() {}
