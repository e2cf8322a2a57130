package ops

import "testing"

func TestQuantGolden(t *testing.T) { runGolden(t, "quant") }
