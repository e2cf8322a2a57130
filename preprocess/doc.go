// Package preprocess turns images and sound into tensors, and scores into answers, the way models
// for vision and speech expect:
//
//	from, err := preprocess.ForInput(model.Inputs()[0].Type) // layout, size and type of the input
//	from.Mean, from.Std = []float32{0.485, 0.456, 0.406}, []float32{0.229, 0.224, 0.225}
//	x, err := from.Tensor(img)
//	// … run the model …
//	best := preprocess.TopK(preprocess.Softmax(scores), 5)
//
// It knows nothing of models and runs: values go in and come out as [ndarray.Array]. What it does
// not know (files and codecs, resampling, spectrograms, tokens) is for other packages.
package preprocess
