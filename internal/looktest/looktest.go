// Package looktest has contexts for tests of how often work looks at its context.
package looktest

import "context"

// Context counts how often it is looked at. After Left looks it has ended.
type Context struct {
	context.Context
	Left int
}

// Err is one look.
func (c *Context) Err() error {
	if c.Left--; c.Left < 0 {
		return context.Canceled
	}
	return nil
}
