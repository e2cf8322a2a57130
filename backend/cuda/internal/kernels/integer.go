package kernels

import "github.com/berth-onnx/berth/backend/cuda/internal/device"

// Quantization says what becomes of sums of products: int32, or, with scales and a zero point, elements of 8 bits between Low and High.
// Strides are 0 for a scale of the whole tensor.
type Quantization struct{ IsQuantized, Low, High, ScaleRow, ScaleColumn int32 }

// Flip is what makes uint8 into int8, as [IntGemm] and [IntConv] take it for each operand; 0 for int8.
const Flip = 0x80

// IntGemm is (a - zero points)·(b - zero points) of 8-bit integers. Rows are contiguous; strides of zero points are 0 for one of the tensor.
type IntGemm struct {
	Y                      Quantization
	M, N, K                int32
	FlipA, FlipB           int32
	ZeroRow, ZeroColumn    int32
	ABatch, BBatch, CBatch int64
}

// IntOperands are the operands of a product of a and b, or of a convolution of x (a) with filters w (b). Zero points may be absent, and
// scales and the result's zero point are where nothing is quantized.
type IntOperands struct{ A, B, AZero, BZero, AScale, BScale, YScale, YZero Operand }

// IntGemm makes the launch of a batch of products.
func (s *Set) IntGemm(g IntGemm, batch int64, o IntOperands, c Operand) (*device.Launch, error) {
	return s.launch("igemm", tiles(g.M, g.N, batch), threads, o.A, o.B, o.AZero, o.BZero, o.AScale, o.BScale,
		o.YScale, o.YZero, written(c), g)
}

// IntConv is a convolution of 8-bit integers less their zero points, of images NCHW. Channels and Outputs are those of one group; zero
// points and scales of filters have a stride of 0 or 1.
type IntConv struct {
	Y                                                                             Quantization
	Groups, Channels, Outputs                                                     int32
	Height, Width, OutHeight, OutWidth                                            int32
	FilterHeight, FilterWidth, StrideY, StrideX, PadY, PadX, DilationY, DilationX int32
	FlipX, FlipW, ZeroRow, Batch                                                  int32
}

// IsDepthwise reports one channel a group, which has a kernel of its own.
func (p *IntConv) IsDepthwise() bool { return p.Channels == 1 && p.Groups > 1 }

// IntConv makes the launch of the convolutions of a batch of images.
func (s *Set) IntConv(p IntConv, o IntOperands, bias, y Operand) (*device.Launch, error) {
	pixels, planes := int64(p.OutHeight)*int64(p.OutWidth), int64(p.Batch)*int64(p.Groups)
	name, grid := "iconv", [3]int64{pieces(pixels, 64), pieces(int64(p.Outputs), 64), planes}
	if p.IsDepthwise() {
		name, grid = "idepthwise", elements(planes*pixels)
	}
	return s.launch(name, grid, threads, o.A, o.B, o.AZero, o.BZero, o.AScale, o.BScale, o.YScale, o.YZero, bias, written(y), p)
}
