#include "textflag.h"

// func hold(sleep *unix.Timespec) int
TEXT ·hold(SB), NOSPLIT, $0-16
	MOVD sleep+0(FP), R19
	MOVD $0x100, R0 // CLONE_VM, no signal at its end
	MOVD ZR, R1     // the same stack, of which the new process uses nothing
	MOVD ZR, R2
	MOVD ZR, R3
	MOVD ZR, R4
	MOVD $220, R8   // clone
	SVC
	CBNZ R0, parent
	MOVD ZR, R20

close:
	MOVD R20, R0
	MOVD $57, R8    // close
	SVC
	ADD  $1, R20
	CMP  $3, R20
	BLT  close
	MOVD $3, R0
	MOVD $999, R1   // keptFrom - 1
	MOVD ZR, R2
	MOVD $436, R8   // close_range, from Linux 5.9 on
	SVC
	MOVD R19, R0
	MOVD ZR, R1
	MOVD $101, R8   // nanosleep
	SVC
	MOVD ZR, R0
	MOVD $94, R8    // exit_group
	SVC
	BRK

parent:
	MOVD R0, ret+8(FP)
	RET
