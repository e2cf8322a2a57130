#include "textflag.h"

// func hold(sleep *unix.Timespec) int
TEXT ·hold(SB), NOSPLIT, $0-16
	MOVQ sleep+0(FP), R12
	MOVL $0x100, DI // CLONE_VM, no signal at its end
	XORL SI, SI     // the same stack, of which the new process uses nothing
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	MOVL $56, AX    // clone
	SYSCALL
	TESTQ AX, AX
	JNZ  parent
	XORL BX, BX

close:
	MOVL BX, DI
	MOVL $3, AX     // close
	SYSCALL
	INCL BX
	CMPL BX, $3
	JLT  close
	MOVL $3, DI
	MOVL $999, SI   // keptFrom - 1
	XORL DX, DX
	MOVL $436, AX   // close_range, from Linux 5.9 on
	SYSCALL
	MOVQ R12, DI
	XORL SI, SI
	MOVL $35, AX    // nanosleep
	SYSCALL
	XORL DI, DI
	MOVL $231, AX   // exit_group
	SYSCALL
	INT  $3

parent:
	MOVQ AX, ret+8(FP)
	RET
