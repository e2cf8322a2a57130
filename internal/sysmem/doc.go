// Package sysmem knows how much memory the machine has, refuses to take more than a
// share of it, and maps files, whose memory can be given back while they are mapped.
package sysmem
