package ptx

import "golang.org/x/sys/cpu"

// isWide says that operations on all lanes are instructions of the host's processor.
var isWide = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// fmaWide is fma.rn.f32: d = a·b + c.
//
//go:noescape
func fmaWide(d, a, b, c *vec)

//go:noescape
func addWide(d, a, b *vec)

//go:noescape
func subWide(d, a, b *vec)

//go:noescape
func mulWide(d, a, b *vec)

// blendWide copies the lanes of a mask.
//
//go:noescape
func blendWide(d, s *vec, m uint32)

// aboveWide is the mask of lanes where a is above b, as signed numbers, both shifted to the left and their sign bits flipped.
//
//go:noescape
func aboveWide(a, b *vec, shift, flip uint64) uint32

// sameWide is the mask of lanes where a and b are equal.
//
//go:noescape
func sameWide(a, b *vec) uint32
