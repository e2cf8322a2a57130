package ops

import "testing"

func TestMicrosoftGolden(t *testing.T) { runGolden(t, "microsoft") }
