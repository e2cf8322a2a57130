// Package experimental holds experimental operators of the default domain that
// the standard has dropped and files still hold.
package experimental
