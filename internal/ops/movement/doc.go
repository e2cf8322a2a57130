// Package movement holds the operators of the default domain that move elements
// and compute none: reshaping, slicing, joining, gathering, scattering, padding.
package movement
