//go:build linux && (amd64 || arm64)

package confined

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// Numbers of Linux that package syscall does not have.
const (
	prSetNoNewPrivs = 38
	setModeFilter   = 1 // SECCOMP_SET_MODE_FILTER
	allThreads      = 1 // SECCOMP_FILTER_FLAG_TSYNC

	retKill  = 0x80000000 // SECCOMP_RET_KILL_PROCESS
	retErrno = 0x00050000
	retAllow = 0x7fff0000

	// Where what is judged stands.
	offNumber = 0
	offArch   = 4
	offFirst  = 16 // the lower half of the first argument

	load = syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS
	ret  = syscall.BPF_RET | syscall.BPF_K
	jeq  = syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K
	jset = syscall.BPF_JMP | syscall.BPF_JSET | syscall.BPF_K
)

// filter has the kernel refuse system calls, in all threads, from now on. What is
// not listed is as if this kernel did not have it: Go and the C library know how to live
// with that, since they run on old kernels. A kernel, or what runs around this
// process, that has no filters leaves the other limits.
func filter() error {
	p := program()
	runtime.LockOSThread() // both calls are about this thread
	defer runtime.UnlockOSThread()
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return nil //nolint:nilerr // a kernel without
	}
	fprog := syscall.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	thread, _, errno := syscall.RawSyscall(sysSeccomp, setModeFilter, allThreads, uintptr(unsafe.Pointer(&fprog)))
	switch {
	case errno == syscall.ENOSYS || errno == syscall.EINVAL:
		return nil
	case errno != 0:
		return fmt.Errorf("confine: filter system calls: %w", errno)
	case thread != 0:
		return errors.New("confine: a thread has a filter of its own")
	}
	return nil
}

func program() []syscall.SockFilter {
	out := []syscall.SockFilter{
		{Code: load, K: offArch},
		{Code: jeq, K: audit, Jt: 1},
		{Code: ret, K: retKill},
		{Code: load, K: offNumber},
		// A thread, but no process. The flag is 1<<16.
		{Code: jeq, K: syscall.SYS_CLONE, Jf: 4},
		{Code: load, K: offFirst},
		{Code: jset, K: syscall.CLONE_THREAD, Jf: 1},
		{Code: ret, K: retAllow},
		{Code: ret, K: retErrno | uint32(syscall.EPERM)},
		// A signal to a thread of this process: the scheduler's.
		{Code: jeq, K: syscall.SYS_TGKILL, Jf: 4},
		{Code: load, K: offFirst},
		{Code: jeq, K: uint32(os.Getpid()), Jf: 1},
		{Code: ret, K: retAllow},
		{Code: ret, K: retErrno | uint32(syscall.EPERM)},
	}
	for _, nr := range append(allowed(), computing...) {
		out = append(out, syscall.SockFilter{Code: jeq, K: uint32(nr), Jf: 1}, syscall.SockFilter{Code: ret, K: retAllow})
	}
	return append(out, syscall.SockFilter{Code: ret, K: retErrno | uint32(syscall.ENOSYS)})
}

// allowed are the system calls that computing and answering need: memory,
// threads, time, waiting, and what is open already.
func allowed() []uintptr {
	return []uintptr{
		syscall.SYS_READ, syscall.SYS_WRITE, syscall.SYS_WRITEV, syscall.SYS_PREAD64, syscall.SYS_CLOSE, syscall.SYS_FSTAT, syscall.SYS_FCNTL,
		syscall.SYS_MMAP, syscall.SYS_MUNMAP, syscall.SYS_MPROTECT, syscall.SYS_MADVISE, syscall.SYS_MREMAP, syscall.SYS_MINCORE, syscall.SYS_BRK,
		syscall.SYS_FUTEX, syscall.SYS_SCHED_YIELD, syscall.SYS_SCHED_GETAFFINITY, syscall.SYS_GETPID, syscall.SYS_GETTID,
		syscall.SYS_SET_ROBUST_LIST, syscall.SYS_SET_TID_ADDRESS, syscall.SYS_EXIT, syscall.SYS_EXIT_GROUP, syscall.SYS_RESTART_SYSCALL,
		syscall.SYS_RT_SIGACTION, syscall.SYS_RT_SIGPROCMASK, syscall.SYS_RT_SIGRETURN, syscall.SYS_SIGALTSTACK,
		syscall.SYS_NANOSLEEP, syscall.SYS_CLOCK_NANOSLEEP, syscall.SYS_CLOCK_GETTIME, syscall.SYS_GETTIMEOFDAY,
		syscall.SYS_EPOLL_CTL, syscall.SYS_EPOLL_PWAIT, syscall.SYS_PPOLL, syscall.SYS_GETRUSAGE,
		sysGetrandom, sysRseq, sysMembarrier,
	}
}
