package main

import (
	"os"
	"testing"
	"time"
)

// TestMain keeps the progress of slow machines out of what tests expect on standard error.
func TestMain(m *testing.M) {
	progressAfter = time.Hour
	os.Exit(m.Run())
}
