package simd

import (
	"unsafe"

	"github.com/berth-onnx/berth/internal/cpu/kern/machine"
)

// Kernels with an argument block are called directly rather than through the table of
// functions: so the compiler sees that the block does not escape.

// Micro calls the micro-kernel of h rows; columns that fit one vector take half of one.
func (t *Table) Micro(h int, u *UkArgs) {
	p := (*byte)(unsafe.Pointer(u))
	half, far := u.Flags&UkTail != 0 && u.Cols <= t.lanes, u.Flags&UkFar != 0 && h <= farRows
	switch {
	case t.Level == machine.LevelGeneric:
		microGeneric(h, u)
	case t.Level == machine.LevelAVX512 && half:
		ukHalfAVX512(p, h-1)
	case t.Level == machine.LevelAVX512 && far:
		ukFarAVX512(p, h-1)
	case t.Level == machine.LevelAVX512:
		ukAVX512(p, h-1)
	case half:
		ukHalfAVX2(p, h-1)
	case far:
		ukFarAVX2(p, h-1)
	default:
		ukAVX2(p, h-1)
	}
}

// MicroInt calls the integer micro-kernel of h rows.
func (t *Table) MicroInt(kind IntKind, h int, u *UkArgs) {
	p := (*byte)(unsafe.Pointer(u))
	switch {
	case kind == QuadsUS:
		uqAVX512(p, h-1)
	case kind == BytePairs:
		bytePairsAVX2(p, h-1)
	case t.Level == machine.LevelAVX2:
		pairsAVX2(p, h-1)
	default:
		microPairsGeneric(h, u)
	}
}

// BytePixels sums up the windows of h pixels, at most Mr; there is none without quads.
func (t *Table) BytePixels(h int, a *PixelArgs) { bytePixelsAVX512((*byte)(unsafe.Pointer(a)), h-1) }

// DepthPixels sums up and quantizes windows of one channel each; there is none without quads.
func (t *Table) DepthPixels(a *DepthArgs) { depthPixelsAVX512((*byte)(unsafe.Pointer(a))) }

// Direct calls the direct kernel for so many pixels by one or two blocks; plain says
// that the input is in the plain layout.
func (t *Table) Direct(pixels, blocks int, plain bool, a *DirectArgs) {
	p := (*byte)(unsafe.Pointer(a))
	i := 2*pixels + blocks - 3
	switch {
	case t.Level == machine.LevelGeneric:
		directGeneric(pixels, blocks, plain, a)
	case t.Level == machine.LevelAVX2 && plain:
		plainAVX2(p, i)
	case t.Level == machine.LevelAVX2:
		directAVX2(p, i)
	case plain:
		plainAVX512(p, i)
	default:
		directAVX512(p, i)
	}
}

// GroupChannels reports whether there are kernels for grouped convolutions that compute so many output channels at a time.
func (t *Table) GroupChannels(n int) bool {
	return n == 4 && t.Level != machine.LevelGeneric || n == 8 && t.Level == machine.LevelAVX512
}

// GroupRows computes up to 3 vectors of pixels of so many output channels of a grouped convolution.
func (t *Table) GroupRows(channels, vectors int, a *GroupArgs) {
	p, i := (*byte)(unsafe.Pointer(a)), 3*(channels/4-1)+vectors-1
	if t.Level == machine.LevelAVX512 {
		groupRowsAVX512(p, i)
	} else {
		groupRowsAVX2(p, i)
	}
}

// NBitsRows is the most rows that a kernel for columns of so many bits takes, 0 where there is none.
func (t *Table) NBitsRows(bits int) int {
	if bits == 4 || t.Level == machine.LevelGeneric {
		return t.Mr / 3 &^ 1
	}
	return 1
}

// NBitsProduct adds the products of 1, 2 or 4 rows with a panel of columns of so many bits.
func (t *Table) NBitsProduct(bits, rows int, a *NBitsArgs) {
	p, i := (*byte)(unsafe.Pointer(a)), bits/4
	if rows > 1 {
		i = 2 + rows/2
	}
	if t.Level == machine.LevelAVX512 {
		nbitsRowsAVX512(p, i)
		return
	}
	nbitsRowsAVX2(p, i)
}

// NBitsBytes adds the products of 1 or 4 rows of bytes with a panel of columns of 4 or 8 bits, in words of 32 bits, whose zero points are
// bytes; a.Rows is how many eights of numbers a block has. Rows have one digit or three.
func (t *Table) NBitsBytes(bits, rows, digits int, a *NBitsArgs) {
	nbitsRowsAVX512((*byte)(unsafe.Pointer(a)), 5+digits/3*4+bits/8*2+rows/4)
}

// Rows calls a function of rows.
func (t *Table) Rows(kernel RowKernel, a *RowArgs) {
	p, i, wide := (*byte)(unsafe.Pointer(a)), t.rowShape(a.Cols), t.Level == machine.LevelAVX512
	switch {
	case t.Level == machine.LevelGeneric:
		rowsGeneric(kernel, a)
	case kernel == SoftmaxRows && wide:
		softmaxRowsAVX512(p, i)
	case kernel == SoftmaxRows:
		softmaxRowsAVX2(p, i)
	case kernel == LayerNormRows && wide:
		layerNormRowsAVX512(p, i)
	case kernel == LayerNormRows:
		layerNormRowsAVX2(p, i)
	case wide:
		rmsNormRowsAVX512(p, i)
	default:
		rmsNormRowsAVX2(p, i)
	}
}

// bytePeak is the loop of byte products of a table, and the operations of a round.
func bytePeak(t *Table) (loop func(rounds int), each int) {
	if t.Ints.Quads {
		return peakQuadsAVX512, 12 * 16 * 4 * 2
	}
	return peakPairsAVX2, 12 * 8 * 2 * 2
}

// Chain runs steps over elems elements, a positive multiple of the round, which is one of ChainElems.
func (t *Table) Chain(round int, steps []ChainStep, elems int) {
	run := chain8AVX2
	switch vectors := round / t.lanes; {
	case t.lanes == 16 && vectors == shortVectors:
		run = chain8AVX512
	case t.lanes == 16 && vectors == farVectors:
		run = chain12AVX512
	case t.lanes == 16:
		run = chain16AVX512
	case vectors == farVectors:
		run = chain12AVX2
	}
	run((*byte)(unsafe.Pointer(&steps[0])), len(steps), 4*elems)
}

// Fourths sends derivatives to the first maxima of windows of 2×2, whose lines are x0 and x1; it returns how many, a multiple of half the lanes.
// Windows are read before they are written.
func (t *Table) Fourths(y0, y1, x0, x1, d []float32) (n int) {
	if t.Level == machine.LevelGeneric || len(d) < t.lanes/2 {
		return 0
	}
	n = len(d) - len(d)%(t.lanes/2)
	f := fourthsAVX2
	if t.Level == machine.LevelAVX512 {
		f = fourthsAVX512
	}
	f(&y0[0], &y1[0], &x0[0], &x1[0], &d[0], n)
	return n
}
