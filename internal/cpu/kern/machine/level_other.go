//go:build !amd64

package machine

const machineLevel = LevelGeneric
