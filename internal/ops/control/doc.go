// Package control holds If, Loop and Scan.
package control
