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

// microInt calls the integer micro-kernel of height h.
func (t *table) microInt(kind intKind, h int, u *ukArgs) {
	p := (*byte)(unsafe.Pointer(u))
	switch {
	case kind == quadsUS:
		microUQ(h, p)
	case kind == quadsSU:
		microSQ(h, p)
	case t.level == LevelAVX2:
		microPairs(h, p)
	default:
		microPairsGeneric(h, u)
	}
}

func microUQ(h int, p *byte) {
	switch h {
	case 1:
		uq1AVX512(p)
	case 2:
		uq2AVX512(p)
	case 3:
		uq3AVX512(p)
	case 4:
		uq4AVX512(p)
	case 5:
		uq5AVX512(p)
	case 6:
		uq6AVX512(p)
	case 7:
		uq7AVX512(p)
	case 8:
		uq8AVX512(p)
	case 9:
		uq9AVX512(p)
	case 10:
		uq10AVX512(p)
	case 11:
		uq11AVX512(p)
	case 12:
		uq12AVX512(p)
	case 13:
		uq13AVX512(p)
	case 14:
		uq14AVX512(p)
	}
}

func microSQ(h int, p *byte) {
	switch h {
	case 1:
		sq1AVX512(p)
	case 2:
		sq2AVX512(p)
	case 3:
		sq3AVX512(p)
	case 4:
		sq4AVX512(p)
	case 5:
		sq5AVX512(p)
	case 6:
		sq6AVX512(p)
	case 7:
		sq7AVX512(p)
	case 8:
		sq8AVX512(p)
	case 9:
		sq9AVX512(p)
	case 10:
		sq10AVX512(p)
	case 11:
		sq11AVX512(p)
	case 12:
		sq12AVX512(p)
	case 13:
		sq13AVX512(p)
	case 14:
		sq14AVX512(p)
	}
}

func microPairs(h int, p *byte) {
	switch h {
	case 1:
		pairs1AVX2(p)
	case 2:
		pairs2AVX2(p)
	case 3:
		pairs3AVX2(p)
	case 4:
		pairs4AVX2(p)
	case 5:
		pairs5AVX2(p)
	case 6:
		pairs6AVX2(p)
	}
}
