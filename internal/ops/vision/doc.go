// Package vision holds resampling and detection of the default domain: Resize,
// GridSample, RoiAlign, NonMaxSuppression.
package vision
