package kern

import "unsafe"

// direct calls the direct kernel for t pixels by one or two blocks.
func (t *table) direct(pixels, blocks int, plain bool, a *directArgs) {
	p := (*byte)(unsafe.Pointer(a))
	i := 2*pixels + blocks - 3
	switch {
	case t.level == LevelGeneric:
		directGeneric(pixels, blocks, plain, a)
	case t.level == LevelAVX2 && plain:
		plainAVX2(i, p)
	case t.level == LevelAVX2:
		directAVX2(i, p)
	case plain:
		plainAVX512(i, p)
	default:
		directAVX512(i, p)
	}
}

// winoIn transforms an input tile of F(m,3).
func (t *table) winoIn(m int, dst, src, tmp *float32, rowStride, dstStride int) {
	switch {
	case t.level == LevelGeneric:
		winoInGeneric(m, dst, src, rowStride, dstStride)
	case t.level == LevelAVX2 && m == 2:
		winoIn2AVX2(dst, src, tmp, rowStride, dstStride)
	case t.level == LevelAVX2:
		winoIn4AVX2(dst, src, tmp, rowStride, dstStride)
	case m == 2:
		winoIn2AVX512(dst, src, tmp, rowStride, dstStride)
	default:
		winoIn4AVX512(dst, src, tmp, rowStride, dstStride)
	}
}

// winoOut transforms an output tile of F(m,3).
func (t *table) winoOut(m int, dst, src, tmp *float32, rowStride, srcStride int, bias, res *float32, lo, hi float32) {
	switch {
	case t.level == LevelGeneric:
		winoOutGeneric(m, dst, src, rowStride, srcStride, bias, res, lo, hi)
	case t.level == LevelAVX2 && m == 2:
		winoOut2AVX2(dst, src, tmp, rowStride, srcStride, bias, res, lo, hi)
	case t.level == LevelAVX2:
		winoOut4AVX2(dst, src, tmp, rowStride, srcStride, bias, res, lo, hi)
	case m == 2:
		winoOut2AVX512(dst, src, tmp, rowStride, srcStride, bias, res, lo, hi)
	default:
		winoOut4AVX512(dst, src, tmp, rowStride, srcStride, bias, res, lo, hi)
	}
}

func directAVX512(i int, p *byte) {
	switch i {
	case 0:
		direct1x1AVX512(p)
	case 1:
		direct1x2AVX512(p)
	case 2:
		direct2x1AVX512(p)
	case 3:
		direct2x2AVX512(p)
	case 4:
		direct3x1AVX512(p)
	case 5:
		direct3x2AVX512(p)
	case 6:
		direct4x1AVX512(p)
	case 7:
		direct4x2AVX512(p)
	case 8:
		direct5x1AVX512(p)
	case 9:
		direct5x2AVX512(p)
	case 10:
		direct6x1AVX512(p)
	case 11:
		direct6x2AVX512(p)
	case 12:
		direct7x1AVX512(p)
	case 13:
		direct7x2AVX512(p)
	case 14:
		direct8x1AVX512(p)
	case 15:
		direct8x2AVX512(p)
	case 16:
		direct9x1AVX512(p)
	case 17:
		direct9x2AVX512(p)
	case 18:
		direct10x1AVX512(p)
	case 19:
		direct10x2AVX512(p)
	case 20:
		direct11x1AVX512(p)
	case 21:
		direct11x2AVX512(p)
	case 22:
		direct12x1AVX512(p)
	case 23:
		direct12x2AVX512(p)
	case 24:
		direct13x1AVX512(p)
	case 25:
		direct13x2AVX512(p)
	case 26:
		direct14x1AVX512(p)
	case 27:
		direct14x2AVX512(p)
	}
}

func plainAVX512(i int, p *byte) {
	switch i {
	case 0:
		plain1x1AVX512(p)
	case 1:
		plain1x2AVX512(p)
	case 2:
		plain2x1AVX512(p)
	case 3:
		plain2x2AVX512(p)
	case 4:
		plain3x1AVX512(p)
	case 5:
		plain3x2AVX512(p)
	case 6:
		plain4x1AVX512(p)
	case 7:
		plain4x2AVX512(p)
	case 8:
		plain5x1AVX512(p)
	case 9:
		plain5x2AVX512(p)
	case 10:
		plain6x1AVX512(p)
	case 11:
		plain6x2AVX512(p)
	case 12:
		plain7x1AVX512(p)
	case 13:
		plain7x2AVX512(p)
	case 14:
		plain8x1AVX512(p)
	case 15:
		plain8x2AVX512(p)
	case 16:
		plain9x1AVX512(p)
	case 17:
		plain9x2AVX512(p)
	case 18:
		plain10x1AVX512(p)
	case 19:
		plain10x2AVX512(p)
	case 20:
		plain11x1AVX512(p)
	case 21:
		plain11x2AVX512(p)
	case 22:
		plain12x1AVX512(p)
	case 23:
		plain12x2AVX512(p)
	case 24:
		plain13x1AVX512(p)
	case 25:
		plain13x2AVX512(p)
	case 26:
		plain14x1AVX512(p)
	case 27:
		plain14x2AVX512(p)
	}
}

func directAVX2(i int, p *byte) {
	switch i {
	case 0:
		direct1x1AVX2(p)
	case 1:
		direct1x2AVX2(p)
	case 2:
		direct2x1AVX2(p)
	case 3:
		direct2x2AVX2(p)
	case 4:
		direct3x1AVX2(p)
	case 5:
		direct3x2AVX2(p)
	case 6:
		direct4x1AVX2(p)
	case 7:
		direct4x2AVX2(p)
	case 8:
		direct5x1AVX2(p)
	case 9:
		direct5x2AVX2(p)
	case 10:
		direct6x1AVX2(p)
	case 11:
		direct6x2AVX2(p)
	}
}

func plainAVX2(i int, p *byte) {
	switch i {
	case 0:
		plain1x1AVX2(p)
	case 1:
		plain1x2AVX2(p)
	case 2:
		plain2x1AVX2(p)
	case 3:
		plain2x2AVX2(p)
	case 4:
		plain3x1AVX2(p)
	case 5:
		plain3x2AVX2(p)
	case 6:
		plain4x1AVX2(p)
	case 7:
		plain4x2AVX2(p)
	case 8:
		plain5x1AVX2(p)
	case 9:
		plain5x2AVX2(p)
	case 10:
		plain6x1AVX2(p)
	case 11:
		plain6x2AVX2(p)
	}
}
