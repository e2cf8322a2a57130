//go:build !race

package exprgraph_test

const raceDetector = false
