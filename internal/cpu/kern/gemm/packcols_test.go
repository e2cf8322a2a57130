package gemm

import (
	"fmt"
	"testing"

	"github.com/berth-onnx/berth/internal/cpu/kern/simd"
)

// Whole groups of rows are packed in loops of their own; they give the words that [IntSide.Word] does.
func TestPackColsIsWordByWord(t *testing.T) {
	const n, stride, ld = 21, 24, 32
	src := make([]byte, 9*stride)
	for i := range src {
		src[i] = byte(i*37 + i/5)
	}
	for _, kind := range []simd.IntKind{simd.IntPairs, simd.QuadsUS} {
		for signs := range 4 {
			s := IntSide{Kind: kind, Signed: signs&1 != 0, Flip: signs&2 != 0}
			for k := 1; k <= 9; k++ {
				t.Run(fmt.Sprintf("%v/signed=%v/flip=%v/%d", kind, s.Signed, s.Flip, k), func(t *testing.T) {
					g := kind.Group()
					got := make([]uint32, (k+g-1)/g*ld)
					s.packCols(got, src, n, k, stride, ld)
					for w := 0; w*g < k; w++ {
						for j := range n {
							var b [4]byte
							have := min(g, k-w*g)
							for i := range have {
								b[i] = src[(w*g+i)*stride+j]
							}
							if want := s.Word(b, have); got[w*ld+j] != want {
								t.Fatalf("word %d of column %d is %#x, want %#x", w, j, got[w*ld+j], want)
							}
						}
					}
				})
			}
		}
	}
}
