package seccompdata

import "fmt"

// LinuxErrno is an error number of Linux, whatever the host has.
type LinuxErrno int

// The errors of attaching, and those that filters end in.
const (
	EPERM   LinuxErrno = 1
	ESRCH   LinuxErrno = 3
	ENOMEM  LinuxErrno = 12
	EACCES  LinuxErrno = 13
	EBUSY   LinuxErrno = 16
	EINVAL  LinuxErrno = 22
	ENOSYS  LinuxErrno = 38
	ENOTSUP LinuxErrno = 524 // ENOTSUPP, which user space has no name for

	// MaxErrno is the largest errno that a filter can return (linux/err.h,
	// MAX_ERRNO): larger data of ERRNO are cut to it.
	MaxErrno LinuxErrno = 4095
)

var errnoNames = map[LinuxErrno]string{
	EPERM: "EPERM", ESRCH: "ESRCH", ENOMEM: "ENOMEM", EACCES: "EACCES", EBUSY: "EBUSY",
	EINVAL: "EINVAL", ENOSYS: "ENOSYS", ENOTSUP: "ENOTSUPP",
}

// String is the name where there is one here, else "errno 7".
func (e LinuxErrno) String() string {
	if name := errnoNames[e]; name != "" {
		return name
	}
	return fmt.Sprintf("errno %d", int(e))
}
