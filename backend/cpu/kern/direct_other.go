//go:build !amd64

package kern

// direct calls the direct kernel for t pixels by one or two blocks.
func (t *table) direct(pixels, blocks int, plain bool, a *directArgs) {
	directGeneric(pixels, blocks, plain, a)
}

// winoIn transforms an input tile of F(m,3).
func (t *table) winoIn(m int, dst, src, _ *float32, rowStride, dstStride int) {
	winoInGeneric(m, dst, src, rowStride, dstStride)
}

// winoOut transforms an output tile of F(m,3).
func (t *table) winoOut(m int, dst, src, _ *float32, rowStride, srcStride int, bias, res *float32, lo, hi float32) {
	winoOutGeneric(m, dst, src, rowStride, srcStride, bias, res, lo, hi)
}
