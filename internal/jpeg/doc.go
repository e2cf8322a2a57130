// Package jpeg decodes JPEG images to exactly the pixels of the reference
// decoders that the ONNX operator ImageDecoder is defined by.
//
// The standard library's decoder may differ from them by a step or two: the
// standard (ITU-T T.81) leaves the rounding of the inverse transform open, and
// how chroma planes of lower resolution are enlarged. This package uses the
// accurate integer transform and the triangle filter that are customary.
//
// Supported: baseline, extended sequential and progressive images of 8 bits with
// Huffman coding, one to four components, any sampling factors, restart markers.
package jpeg
