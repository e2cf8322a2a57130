package kern

import "unsafe"

// The channel-blocked layout.
//
//	plain    [n][channel][pixel]
//	blocked  [n][channel/B][pixel][channel mod B]      B = Block()
//
// A pixel's B neighbouring channels fill one vector, so kernels never see the
// ends of image rows. A last block that is not full is padded with channels of
// zeros; every blocked kernel keeps them zero. Elementwise functions that map
// zero to zero work on blocked tensors as on any slice; after others, call
// ClearPadding.

// genericBlock is the block of the generic level.
const genericBlock = 4

// maxBlock is the largest block of all levels.
const maxBlock = 16

// Block returns the number of channels in a block at the active level: 16 for
// AVX-512, 8 for AVX2, 4 for plain Go.
func Block() int { return active.Load().block() }

func (t *table) block() int {
	if t.level == LevelGeneric {
		return genericBlock
	}
	return t.lanes
}

// BlockedLen returns the elements of a blocked tensor of n × channels × spatial.
func BlockedLen(n, channels, spatial int) int {
	b := Block()
	return n * ceilDiv(channels, b) * b * spatial
}

// layoutJob converts between the layouts; it is a Task, a block each.
type layoutJob struct {
	t          *table
	dst, src   []float32
	c, spatial int
	blocks     int
	back       bool // from blocked to plain
}

var layoutJobs freeList[layoutJob]

// changeLayout converts n × channels × spatial from the plain to the blocked
// layout, or back.
func (t *table) changeLayout(dst, src []float32, n, channels, spatial int, back bool, threads int) {
	if n*channels*spatial == 0 {
		return
	}
	j := layoutJobs.get()
	defer func() {
		*j = layoutJob{}
		layoutJobs.put(j)
	}()
	b := t.block()
	*j = layoutJob{t: t, c: channels, spatial: spatial, blocks: ceilDiv(channels, b), back: back}
	plain, blocked := n*channels*spatial, n*j.blocks*b*spatial
	if back {
		j.dst, j.src = dst[:plain], src[:blocked]
	} else {
		j.dst, j.src = dst[:blocked], src[:plain]
	}
	Parallel(n*j.blocks, threads, j)
}

// ToBlocked converts n × channels × spatial from the plain to the blocked
// layout.
func ToBlocked(dst, src []float32, n, channels, spatial, threads int) {
	active.Load().changeLayout(dst, src, n, channels, spatial, false, threads)
}

// FromBlocked converts from the blocked to the plain layout.
func FromBlocked(dst, src []float32, n, channels, spatial, threads int) {
	active.Load().changeLayout(dst, src, n, channels, spatial, true, threads)
}

// ClearPadding sets the padding channels of a blocked tensor to zero.
func ClearPadding(x []float32, n, channels, spatial int) {
	b := Block()
	blocks, have := ceilDiv(channels, b), channels%b
	if have == 0 {
		return
	}
	for i := range n {
		clearLanes(x[((i+1)*blocks-1)*spatial*b:][:spatial*b], have, b)
	}
}

// clearLanes zeroes all but the first lanes of every group of b.
func clearLanes(x []float32, have, b int) {
	for p := 0; p < len(x); p += b {
		clear(x[p+have : p+b])
	}
}

// Run converts one block.
func (j *layoutJob) Run(i, _ int) {
	t, b := j.t, j.t.block()
	image, block := i/j.blocks, i%j.blocks
	have := min(b, j.c-block*b)
	plainAt := (image*j.c + block*b) * j.spatial
	blockedAt := i * j.spatial * b
	if !j.back {
		dst := j.dst[blockedAt:][:j.spatial*b]
		t.transpose(&dst[0], f32p(j.src, plainAt), j.spatial, 4*b, 4*j.spatial, have)
		if have < b {
			clearLanes(dst, have, b)
		}
		return
	}
	t.unblock(j.dst[plainAt:], j.src[blockedAt:], have, j.spatial, j.spatial)
}

// paddedCopy writes planes of rows × cols elements of width each into larger
// planes of zeros.
type paddedCopy struct {
	rows, cols   int // of the source
	pRows, pCols int // of the destination
	top, left    int // where the source's first element goes
	width        int // float32 of an element
}

// plane copies one plane. What lies outside of the destination is dropped.
func (p *paddedCopy) plane(dst, src []float32) {
	w := p.width
	line := p.pCols * w
	n := max(0, min(p.cols, p.pCols-p.left)) * w
	for y := range p.pRows {
		row := dst[y*line:][:line]
		from := y - p.top
		if from < 0 || from >= p.rows {
			clear(row)
			continue
		}
		clear(row[:p.left*w])
		copy(row[p.left*w:], src[from*p.cols*w:][:n])
		clear(row[min(line, p.left*w+n):])
	}
}

// size is the number of floats of a padded plane.
func (p *paddedCopy) size() int { return p.pRows * p.pCols * p.width }

// needed reports whether the padded plane differs from the plain one.
func (p *paddedCopy) needed() bool {
	return p.top != 0 || p.left != 0 || p.pRows > p.rows || p.pCols > p.cols
}

// directArgs is the argument block of the direct kernels; the generated code
// knows the fields by their offsets: do not reorder.
type directArgs struct {
	in, w, out, bias, res  unsafe.Pointer
	ic, kh, kw             int // blocks (or channels) of input, taps
	plane, row, tap, pixel int // distances in the input, in bytes
	outBlock               int // distance between blocks of the output, in bytes
	flags                  int
	lo, hi                 float32
}

// Flags of a direct kernel.
const (
	directBias = 1 << iota
	directRes
	directCut
)

// directGeneric is the direct kernel in plain Go.
func directGeneric(t, blocks int, plain bool, a *directArgs) {
	n := genericBlock
	if plain {
		n = 1
	}
	for i := range t {
		for j := range blocks {
			var s [genericBlock]float32
			w := a.w
			k := 0
			for ic := range a.ic {
				for kh := range a.kh {
					for kw := range a.kw {
						x := unsafe.Slice((*float32)(unsafe.Add(a.in, ic*a.plane+kh*a.row+kw*a.tap+i*a.pixel)), n)
						for _, v := range x {
							wv := (*[genericBlock]float32)(unsafe.Add(w, 4*genericBlock*(k*blocks+j)))
							for l := range s {
								s[l] += v * wv[l]
							}
							k++
						}
					}
				}
			}
			directFinish(a, i, j, &s)
		}
	}
}

func directFinish(a *directArgs, i, j int, s *[genericBlock]float32) {
	at := j*a.outBlock + 4*genericBlock*i
	out := (*[genericBlock]float32)(unsafe.Add(a.out, at))
	for l, v := range s {
		if a.flags&directBias != 0 {
			v += *(*float32)(unsafe.Add(a.bias, 4*(genericBlock*j+l)))
		}
		if a.flags&directRes != 0 {
			v += *(*float32)(unsafe.Add(a.res, at+4*l))
		}
		if a.flags&directCut != 0 {
			v = clampNaN(v, a.lo, a.hi)
		}
		out[l] = v
	}
}
