//go:build !amd64

package kern

const machineLevel = LevelGeneric

var tables = [numLevels]*table{LevelGeneric: genericTable}

// pause passes a moment of a busy wait.
func pause() {
	for range 64 {
		pauseSink++
	}
}

var pauseSink int
