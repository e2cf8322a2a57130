//go:build !amd64

package simd

import "github.com/berth-onnx/berth/internal/cpu/kern/machine"

var tables = [machine.NumLevels]*Table{machine.LevelGeneric: genericTable}

// Micro calls the micro-kernel of h rows.
func (t *Table) Micro(h int, u *UkArgs) { microGeneric(h, u) }

// MicroInt calls the integer micro-kernel of h rows.
func (t *Table) MicroInt(_ IntKind, h int, u *UkArgs) { microPairsGeneric(h, u) }

// BytePixels is for levels with quads, of which there is none.
func (t *Table) BytePixels(int, *PixelArgs) { panic("no quads") }

// DepthPixels is for levels with quads.
func (t *Table) DepthPixels(*DepthArgs) { panic("no quads") }

// Direct calls the direct kernel for so many pixels by one or two blocks; plain says
// that the input is in the plain layout.
func (t *Table) Direct(pixels, blocks int, plain bool, a *DirectArgs) {
	directGeneric(pixels, blocks, plain, a)
}

// GroupChannels is false: there are no kernels for grouped convolutions.
func (t *Table) GroupChannels(int) bool { return false }

// GroupRows is for levels that have such kernels.
func (t *Table) GroupRows(int, int, *GroupArgs) { panic("no kernels for grouped convolutions") }

// NBitsRows is 0: there are no kernels for columns of few bits.
func (t *Table) NBitsRows(int) int { return 0 }

// NBitsProduct is for levels that have such kernels.
func (t *Table) NBitsProduct(int, int, *NBitsArgs) { panic("no kernels for few bits") }

// NBitsBytes is for levels that have such kernels.
func (t *Table) NBitsBytes(int, int, int, *NBitsArgs) { panic("no kernels for few bits") }

// Chain is for levels with vectors.
func (t *Table) Chain(int, []ChainStep, int) { panic("no chains") }

// Rows calls a function of rows.
func (t *Table) Rows(kernel RowKernel, a *RowArgs) { rowsGeneric(kernel, a) }

// bytePeak is the loop of byte products of a table, and the operations of a round.
func bytePeak(t *Table) (loop func(rounds int), each int) { return t.peak, t.flops }

// Fourths computes nothing.
func (t *Table) Fourths(y0, y1, x0, x1, d []float32) int { return 0 }
