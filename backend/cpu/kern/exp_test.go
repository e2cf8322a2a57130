package kern

import (
	"fmt"
	"testing"
)

func BenchmarkExp(b *testing.B) {
	peak := Peak(LevelAVX512)
	for _, s := range []GemmSpec{
		{M: 128, N: 3072, K: 768, ConstA: true, ConstB: true},
		{M: 128, N: 3072, K: 768, ConstB: true},
		{M: 128, N: 3072, K: 768},
		{M: 128, N: 3072, K: 256, ConstA: true, ConstB: true},
		{M: 128, N: 3072, K: 256, ConstB: true},
		{M: 128, N: 1024, K: 768, ConstA: true, ConstB: true},
		{M: 128, N: 1024, K: 768, ConstB: true},
		{M: 128, N: 256, K: 768, ConstB: true},
		{M: 128, N: 256, K: 768, ConstA: true},
	} {
		b.Run(fmt.Sprintf("%dx%dx%d", s.M, s.N, s.K), func(b *testing.B) { benchGemm(b, LevelAVX512, s, peak, false) })
		b.Run(fmt.Sprintf("%dx%dx%davx2", s.M, s.N, s.K), func(b *testing.B) { benchGemm(b, LevelAVX2, s, peak, false) })
	}
}
