// Package jpeg2000 decodes JPEG 2000 images (ISO/IEC 15444-1, ITU-T T.800): JP2
// files and bare codestreams. The standard library and golang.org/x/image have no
// decoder, and the ONNX operator ImageDecoder needs one.
//
// The steps, and the file of each:
//
//	boxes      jp2.go         color space, palette, where the codestream is
//	markers    codestream.go  sizes, coding styles, quantization, tile parts
//	geometry   tile.go        tiles, resolutions, subbands, precincts, code-blocks
//	packets    packet.go      which passes of which code-block come where
//	bit planes block.go       coefficients, by the arithmetic decoder of mq.go
//	wavelets   wavelet.go     subbands become samples
//	samples    image.go       color transform, palette, 8 bits
//
// Not supported: packed packet headers (markers PPM and PPT) and the extensions
// of Part 2.
package jpeg2000
