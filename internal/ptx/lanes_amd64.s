#include "textflag.h"

// Operations on vec, 32 lanes of 64 bits, four lanes to a register of 256 bits. Lanes of fewer bits are extended with zeros, and so
// are the results: the upper half of a lane computes with zeros, which gives zero.

DATA first<>+0(SB)/8, $63
DATA first<>+8(SB)/8, $62
DATA first<>+16(SB)/8, $61
DATA first<>+24(SB)/8, $60
GLOBL first<>(SB), RODATA|NOPTR, $32

DATA four<>+0(SB)/8, $4
DATA four<>+8(SB)/8, $4
DATA four<>+16(SB)/8, $4
DATA four<>+24(SB)/8, $4
GLOBL four<>(SB), RODATA|NOPTR, $32

// NANS leaves the not-a-number of results in every half of a lane of Y15.
#define NANS \
	VPCMPEQD Y15, Y15, Y15 \
	VPSRLD   $1, Y15, Y15

// KEEP stores a result, every not-a-number of it the same one.
#define KEEP(at) \
	VCMPPS    $3, Y2, Y2, Y3      \
	VBLENDVPS Y3, Y15, Y2, Y2     \
	VMOVUPS   Y2, at(DI)

#define FMA(at) \
	VMOVUPS     at(SI), Y0 \
	VMOVUPS     at(CX), Y2 \
	VFMADD231PS at(BX), Y0, Y2 \
	KEEP(at)

#define ADD(at) \
	VMOVUPS at(SI), Y0 \
	VADDPS  at(BX), Y0, Y2 \
	KEEP(at)

#define SUB(at) \
	VMOVUPS at(SI), Y0 \
	VSUBPS  at(BX), Y0, Y2 \
	KEEP(at)

#define MUL(at) \
	VMOVUPS at(SI), Y0 \
	VMULPS  at(BX), Y0, Y2 \
	KEEP(at)

#define EACH(what) \
	what(0)   \
	what(32)  \
	what(64)  \
	what(96)  \
	what(128) \
	what(160) \
	what(192) \
	what(224)

// func fmaWide(d, a, b, c *vec)
TEXT ·fmaWide(SB), NOSPLIT, $0-32
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), BX
	MOVQ c+24(FP), CX
	NANS
	EACH(FMA)
	VZEROUPPER
	RET

// func addWide(d, a, b *vec)
TEXT ·addWide(SB), NOSPLIT, $0-24
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), BX
	NANS
	EACH(ADD)
	VZEROUPPER
	RET

// func subWide(d, a, b *vec)
TEXT ·subWide(SB), NOSPLIT, $0-24
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), BX
	NANS
	EACH(SUB)
	VZEROUPPER
	RET

// func mulWide(d, a, b *vec)
TEXT ·mulWide(SB), NOSPLIT, $0-24
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), BX
	NANS
	EACH(MUL)
	VZEROUPPER
	RET

// CHOOSE takes the lanes whose bit of the mask, shifted to the sign, is set; the next four lanes' bits lie four lower.
#define CHOOSE(at) \
	VPSLLVQ   Y1, Y0, Y2 \
	VMOVUPD   at(SI), Y3 \
	VMOVUPD   at(DI), Y4 \
	VBLENDVPD Y2, Y3, Y4, Y4 \
	VMOVUPD   Y4, at(DI) \
	VPSUBQ    Y5, Y1, Y1

// func blendWide(d, s *vec, m uint32)
TEXT ·blendWide(SB), NOSPLIT, $0-20
	MOVQ         d+0(FP), DI
	MOVQ         s+8(FP), SI
	MOVL         m+16(FP), AX
	VMOVQ        AX, X0
	VPBROADCASTQ X0, Y0
	VMOVDQU      first<>(SB), Y1
	VMOVDQU      four<>(SB), Y5
	EACH(CHOOSE)
	VZEROUPPER
	RET

// MASK adds the four bits of a comparison in Y2 to the mask, which grows downwards from the last lanes.
#define MASK \
	VMOVMSKPD Y2, DX \
	SHLL      $4, AX \
	ORL       DX, AX

#define ABOVE(at) \
	VMOVDQU  at(SI), Y0 \
	VMOVDQU  at(BX), Y1 \
	VPSLLQ   X14, Y0, Y0 \
	VPSLLQ   X14, Y1, Y1 \
	VPXOR    Y13, Y0, Y0 \
	VPXOR    Y13, Y1, Y1 \
	VPCMPGTQ Y1, Y0, Y2 \
	MASK

#define SAME(at) \
	VMOVDQU  at(SI), Y0 \
	VPCMPEQQ at(BX), Y0, Y2 \
	MASK

#define DOWN(what) \
	what(224) \
	what(192) \
	what(160) \
	what(128) \
	what(96)  \
	what(64)  \
	what(32)  \
	what(0)

// func aboveWide(a, b *vec, shift, flip uint64) uint32
TEXT ·aboveWide(SB), NOSPLIT, $0-36
	MOVQ         a+0(FP), SI
	MOVQ         b+8(FP), BX
	VMOVQ        shift+16(FP), X14
	VPBROADCASTQ flip+24(FP), Y13
	XORL         AX, AX
	DOWN(ABOVE)
	VZEROUPPER
	MOVL         AX, ret+32(FP)
	RET

// func sameWide(a, b *vec) uint32
TEXT ·sameWide(SB), NOSPLIT, $0-20
	MOVQ a+0(FP), SI
	MOVQ b+8(FP), BX
	XORL AX, AX
	DOWN(SAME)
	VZEROUPPER
	MOVL AX, ret+16(FP)
	RET
