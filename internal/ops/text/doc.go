// Package text holds the operators of the default domain on strings.
package text
