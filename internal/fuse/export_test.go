package fuse

// Everything lets every legal group be formed until the function that it returns is called.
func Everything() func() {
	always = true
	return func() { always = false }
}
