// Package sequence holds sequences, optionals and SequenceMap.
package sequence
