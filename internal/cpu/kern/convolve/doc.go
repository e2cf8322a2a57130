// Package convolve has convolution and pooling.
//
//	PlanConv      which algorithm computes a convolution, and why
//	Conv          direct, as a product, depthwise, Winograd F(2,3) and F(4,3)
//	IntConv       convolution of bytes
//	Columns       transposed convolution as a product
//	Pool          pooling
//	ToBlocked, FromBlocked, PixelTaps    the channel-blocked layout
//
// Files:
//
//	conv_plan, conv, conv_run        choice, plan and run
//	conv_matrix, segments            convolution as a product with patches
//	direct                           direct convolution
//	winograd                         Winograd convolution
//	runweights                       weights that a run is given, turned around for derivatives by images
//	weights, weightpixels            derivatives by weights: with patches, by pixels
//	planes                           volumes, as convolutions of images
//	transposed, columns              transposed convolution: by phases, as a product
//	taps, strips, depth, pooling     windows: depthwise convolution, pooling
//	volumepool                       pooling of volumes
//	intconv                          integer convolution
//	blocked_layout, pixelsums        the channel-blocked layout
//
// Error bounds, with u = 2⁻²⁴, C input channels of a group and T taps; x and w are inputs and
// weights, sums go over the window of an output. Bias, residual and activation are extra. The
// bounds hold for plain and for channel-blocked images.
//
//	patches, depthwise            (C·T+2)·u·Σ|x·w|
//	columns                       (C+T+3)·u·Σ|x·w|
//	direct                        (min(C·T, 128+16·T) + C·T/128 + 3)·u·Σ|x·w|
//	phases                        (min(C·T, 256+16·T) + C·T/256 + 3)·u·Σ|x·w|
//	Winograd F(2,3)               (min(C,32)+C/32+12)·u·64·Σ_c max|x_c|·max|w_c|
//	Winograd F(4,3)               (min(C,32)+C/32+20)·u·598·Σ_c max|x_c|·max|w_c|
//	average pooling               (T+2)·u·Σ|x| by the count that divides the sum
//
// A volume whose planes are images has C times the depth of the kernel channels.
// Direct convolutions add up chains of some 128 products, and then the sums of the chains; Winograd convolutions add up 32 channels.
// max|x_c| is over the inputs of channel c in the tile of the output, max|w_c| over the taps. 64
// and 598 are (Σᵢ|Aᵢ|·‖Bᵢ‖₁·‖Gᵢ‖₁)² of the transforms (Barabasz et al., "Error Analysis and
// Improving the Accuracy of Winograd Convolution", 2020); typical errors are two orders smaller.
// Inputs that would make the bound meaningless are outliers, see winograd_outliers.go.
// NaN and infinite inputs reach the outputs whose windows contain them and no others.
package convolve
