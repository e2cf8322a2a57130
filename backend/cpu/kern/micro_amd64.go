package kern

import "unsafe"

// micro calls the micro-kernel of height h. Plain switches rather than tables
// of functions let the compiler see that the argument block does not escape.
func (t *table) micro(h int, u *ukArgs) {
	p := (*byte)(unsafe.Pointer(u))
	switch t.level {
	case LevelAVX512:
		microAVX512(h, p)
	case LevelAVX2:
		microAVX2(h, p)
	default:
		microGeneric(h, u)
	}
}

func microAVX512(h int, p *byte) {
	switch h {
	case 1:
		uk1AVX512(p)
	case 2:
		uk2AVX512(p)
	case 3:
		uk3AVX512(p)
	case 4:
		uk4AVX512(p)
	case 5:
		uk5AVX512(p)
	case 6:
		uk6AVX512(p)
	case 7:
		uk7AVX512(p)
	case 8:
		uk8AVX512(p)
	case 9:
		uk9AVX512(p)
	case 10:
		uk10AVX512(p)
	case 11:
		uk11AVX512(p)
	case 12:
		uk12AVX512(p)
	case 13:
		uk13AVX512(p)
	case 14:
		uk14AVX512(p)
	}
}

func microAVX2(h int, p *byte) {
	switch h {
	case 1:
		uk1AVX2(p)
	case 2:
		uk2AVX2(p)
	case 3:
		uk3AVX2(p)
	case 4:
		uk4AVX2(p)
	case 5:
		uk5AVX2(p)
	case 6:
		uk6AVX2(p)
	}
}
