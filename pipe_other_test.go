//go:build !unix

package berth_test

import "errors"

func makePipe(string) error { return errors.ErrUnsupported }
