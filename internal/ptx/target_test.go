package ptx

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTargets: what a driver refuses is refused, with the line of the instruction or variable.
func TestTargets(t *testing.T) {
	for _, test := range []struct{ version, target, body, want string }{
		{"8.1", "sm_70", "", ""},
		{"8.1", "sm_90a", "", ""},
		{"8.2", "sm_80", "", "the newest that is executed here is 8.1"},
		{"8", "sm_80", "", `the version "8"`},
		{"8.1", "sm_60", "", "the target sm_60"},
		{"8.1", "sm_100", "", "the target sm_100"},
		{"8.1", "debug", "", "no target"},
		{"8.1", "sm_75", "cp.async.ca.shared.global [%r3], [%x2], 4;", "line 22: cp.async.ca.shared.global: version 7.0 and the target sm_80"},
		{"6.5", "sm_80", "cp.async.ca.shared.global [%r3], [%x2], 4;", "version 7.0"},
		{"8.1", "sm_70", "tanh.approx.f32 %f2, %f1;", "the target sm_75"},
		{"8.1", "sm_75", "tanh.approx.f32 %f2, %f1;", ""},
		{"8.1", "sm_70", "max.NaN.f32 %f2, %f1, %f1;", "the target sm_80"},
		{"8.1", "sm_70", "max.f32 %f2, %f1, %f1;", ""},
		{"8.1", "sm_75", "redux.sync.add.u32 %r9, %r1, -1;", "the target sm_80"},
		{"8.1", "sm_75", "{ .reg .b16 %h; cvt.rn.bf16.f32 %h, %f1; }", "the target sm_80"},
		{"8.1", "sm_80", "{ .reg .b16 %h; cvt.rn.bf16.f32 %h, %f1; cvt.rn.bf16.s32 %h, %r1; }", "cvt.rn.bf16.s32: version 7.8 and the target sm_90"},
		{"7.7", "sm_80", "barrier.cta.sync 0;", "version 7.8"},
		{"8.1", "sm_80", "ld.global.L2::256B.f32 %f2, [%x2];", ""},
		{"8.1", "sm_75", "ld.global.L2::256B.f32 %f2, [%x2];", "the target sm_80"},
		{"8.1", "sm_80", "activemask.b32 %r9;", "activemask.b32 is not executed here"},
		{"8.1", "sm_80", "ldu.global.f32 %f2, [%x2];", "ldu.global.f32 is not executed here"},
		{"8.1", "sm_80", "ld.shared.nc.f32 %f2, [%r3];", ".nc is of ld.global alone"},
		{"8.1", "sm_80", "st.global.nc.f32 [%x3], %f1;", ".nc is of ld.global alone"},
		{"8.1", "sm_80", "cp.async.cg.shared.global [%r3], [%x2], 8;", "copies of 8 bytes"},
		{"8.1", "sm_80", "cp.async.wait_group %r1;", "no constant"},
		{"8.1", "sm_80", "cp.async.mbarrier.arrive.shared.b64 [%r3];", "cp.async"},
		{"8.1", "sm_80", "bar.arrive 1;", "the number of threads is missing"},
		{"8.1", "sm_90", ".shared .b8 big[48200];", "more than 49152 bytes of shared memory"},
	} {
		text := strings.NewReplacer("8.1", test.version, "sm_80", test.target).Replace(small(test.body))
		m, err := Parse(text)
		require.NoError(t, err)
		_, err = Compile(m)
		if test.want == "" {
			require.NoError(t, err, test.body)
			continue
		}
		require.ErrorContains(t, err, test.want, test.body)
		require.ErrorAs(t, err, new(*SyntaxError))
	}
}

// TestDynamicShared: a block has as much shared memory as the target allows.
func TestDynamicShared(t *testing.T) {
	for target, most := range map[string]int{"sm_70": 96 << 10, "sm_75": 64 << 10, "sm_80": 163 << 10, "sm_90": 227 << 10} {
		b := loadText(t, strings.Replace(small(""), "sm_80", target, 1))
		for dynamic, want := range map[int]string{most - 1024: "", most - 1023: "bytes of shared memory"} {
			_, err := b.Launch(context.Background(), b.mem, Launch{Kernel: "k", Grid: line(1), Block: line(32), Args: make([]byte, 16), DynamicShared: dynamic})
			if want == "" {
				require.NoError(t, err, target)
			} else {
				require.ErrorContains(t, err, want, target)
			}
		}
	}
}
