// Package sysmem knows how much memory the machine has, and refuses to take more
// than a share of it.
package sysmem
