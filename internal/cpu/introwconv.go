package cpu

import (
	"strconv"

	"github.com/berth-onnx/berth/internal/cpu/kern/convolve"
	"github.com/berth-onnx/berth/internal/cpu/kern/gemm"
	"github.com/berth-onnx/berth/internal/cpu/kern/vec"
	"github.com/berth-onnx/berth/ops"
	"github.com/berth-onnx/berth/ssa"
)

// Convolutions of bytes with few output positions, as a product with the positions
// as rows (see rowConv). The image is transposed first, so that the channels of a pixel
// are neighbours and a window is gathered pixel by pixel:
//
//	X [C, pixels]  ->  [pixels, C]  ->  windows [P, taps·C] · Wᵀ  ->  [P, M]  ->  Y [M, P]
type intRowConv struct {
	planned
	win                         window
	n, c, m                     int
	taps                        int
	g                           *gemm.IntGemm
	packed                      *gemm.Packed
	zeros                       []int32   // of the weights
	zx, bias                    int       // operand positions, -1 for none
	transpose, back             *vec.Copy // of the image, of the sums
	pointwise                   bool      // the transposed image is the windows
	image, rows, sums, zero, ws int       // workspace
	threads                     int
}

// intRowConv prepares this form; nil where it does not pay.
func (p *prep) intRowConv(win window, s convolve.IntConvSpec, weights int, zeros []int32, zx, bias int) (intSums, error) {
	positions, taps := sizeOf(win.out[:]), sizeOf(win.kernel[:])
	if s.Groups != 1 || positions > convolve.FewPositions || s.InC < 16 || s.OutC < 16 || p.in[weights].n != s.OutC*s.InC*taps {
		return nil, nil
	}
	k := &intRowConv{win: win, n: s.Batch, c: s.InC, m: s.OutC, taps: taps, zeros: zeros, zx: zx, bias: bias, threads: p.threads,
		pointwise: win.isPointwise()}
	g := gemm.IntGemmSpec{M: k.n * positions, N: k.m, K: taps * k.c, TransB: true, ASigned: s.XSigned, BSigned: s.WSigned, ConstB: true}
	var err error
	if k.g, err = gemm.NewIntGemm(g); err != nil {
		return nil, err
	}
	if k.packed, err = k.pack(p, weights); err != nil {
		return nil, err
	}
	k.planned = planned{Algorithm: convolve.ConvPixelRows, Reason: strconv.Itoa(positions) + " output positions"}
	in := sizeOf(win.in[:])
	if k.transpose, err = swapLast(k.n, k.c, in); err != nil {
		return nil, err
	}
	if k.back, err = swapLast(k.n, positions, k.m); err != nil {
		return nil, err
	}
	k.image = p.workspace(k.n * k.c * in)
	if !k.pointwise {
		k.rows = p.workspace(g.M * g.K)
	}
	k.sums, k.zero = p.workspace(4*g.M*g.N), p.workspace(4)
	k.ws = p.workspace(k.g.Workspace(p.threads))
	return k, nil
}

// pack lays operand weights out, taps before channels.
func (k *intRowConv) pack(p *prep, weights int) (*gemm.Packed, error) {
	return p.pack(weights, k.g.LayoutB(), arrangement{channelsLast: true}, func(c *ssa.Constant) (*gemm.Packed, error) {
		data, err := p.bytesOf(c)
		if err != nil {
			return nil, err
		}
		if data, err = channelsLast(p, data, k.m, k.c, k.taps); err != nil {
			return nil, err
		}
		return k.g.PackB(p.ctx, data)
	})
}

// into writes the sums.
func (k *intRowConv) into(c *ops.Call, y []int32) error {
	x, zx, bias := intOperands(c, k.zx, k.bias)
	threads := min(k.threads, c.Threads)
	in, positions := sizeOf(k.win.in[:]), sizeOf(k.win.out[:])
	rows := scratchOf[byte](c, k.image, k.n*k.c*in)
	if err := vec.RunCopy(c.Done(), k.transpose, rows, 0, x, 0, threads); err != nil {
		return err
	}
	if !k.pointwise {
		windows := scratchOf[byte](c, k.rows, k.n*positions*k.taps*k.c)
		k.gather(windows, rows, byte(zx))
		rows = windows
	}
	zero, sums := scratchOf[int32](c, k.zero, 1), scratchOf[int32](c, k.sums, k.n*positions*k.m)
	zero[0] = zx
	err := k.g.Run(gemm.IntGemmArgs{Done: c.Done(), A: rows, PackedB: k.packed, C: sums, ZA: zero, ZB: k.zeros}, c.Scratch[k.ws:], threads)
	if err != nil {
		return err
	}
	for i := 0; i < len(sums) && bias != nil; i += k.m {
		for j, b := range bias {
			sums[i+j] += b
		}
	}
	return vec.RunCopy(c.Done(), k.back, y, 0, sums, 0, threads)
}

// gather copies the pixels of all windows from a transposed image; padding is the zero
// point.
func (k *intRowConv) gather(windows, image []byte, zero byte) {
	w, size := &k.win, k.taps*k.c
	in, out := sizeOf(w.in[:])*k.c, sizeOf(w.out[:])
	for b := range k.n {
		for i := range out {
			gatherPixels(w, windows[(b*out+i)*size:][:size], image[b*in:][:in], k.c, w.position(i), zero)
		}
	}
}
