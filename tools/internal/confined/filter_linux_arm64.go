package confined

// Numbers of Linux on arm64.
const (
	audit = 0xc00000b7 // AUDIT_ARCH_AARCH64

	sysSeccomp    = 277
	sysGetrandom  = 278
	sysMembarrier = 283
	sysRseq       = 293
)

// computing is what only this machine has.
var computing []uintptr
