// Package nn holds neural network layers of the default domain: convolutions,
// pools, normalizations, recurrent layers, attention, losses.
package nn
