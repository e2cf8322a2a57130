// Package signal holds Fourier transforms, mel weights and window functions of
// the default domain.
package signal
