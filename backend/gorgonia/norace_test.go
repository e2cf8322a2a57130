//go:build !race

package gorgonia_test

const raceDetector = false
