package confined

import "syscall"

// Numbers of Linux on amd64.
const (
	audit = 0xc000003e // AUDIT_ARCH_X86_64; x32 has other numbers for the same calls

	sysSeccomp    = 317
	sysGetrandom  = 318
	sysMembarrier = 324
	sysRseq       = 334
)

// computing is what only this machine has.
var computing = []uintptr{syscall.SYS_EPOLL_WAIT, syscall.SYS_ARCH_PRCTL, syscall.SYS_TIME}
