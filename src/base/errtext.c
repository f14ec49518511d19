/* SPDX-License-Identifier: MIT */
/*
 * Texts of errors, for messages.
 *
 * A table of gmp's own: strerror may take locks and allocate, so a signal handler must not call it,
 * and strerrordesc_np is in glibc from 2.32 on only.
 */
#include "base/errtext.h"

#include <errno.h>

#include "base/base.h"

static const char *const texts[] = {
	[EPERM] = "Operation not permitted",
	[ENOENT] = "No such file or directory",
	[ESRCH] = "No such process",
	[EINTR] = "Interrupted system call",
	[EIO] = "Input/output error",
	[ENXIO] = "No such device or address",
	[EBADF] = "Bad file descriptor",
	[EAGAIN] = "Resource temporarily unavailable",
	[ENOMEM] = "Cannot allocate memory",
	[EACCES] = "Permission denied",
	[EFAULT] = "Bad address",
	[EBUSY] = "Device or resource busy",
	[EEXIST] = "File exists",
	[EXDEV] = "Invalid cross-device link",
	[ENODEV] = "No such device",
	[ENOTDIR] = "Not a directory",
	[EISDIR] = "Is a directory",
	[EINVAL] = "Invalid argument",
	[ENFILE] = "Too many open files in system",
	[EMFILE] = "Too many open files",
	[ENOTTY] = "Inappropriate ioctl for device",
	[EFBIG] = "File too large",
	[ENOSPC] = "No space left on device",
	[ESPIPE] = "Illegal seek",
	[EROFS] = "Read-only file system",
	[EMLINK] = "Too many links",
	[EPIPE] = "Broken pipe",
	[EDEADLK] = "Resource deadlock avoided",
	[ENAMETOOLONG] = "File name too long",
	[ENOSYS] = "Function not implemented",
	[ELOOP] = "Too many levels of symbolic links",
	[EOVERFLOW] = "Value too large for defined data type",
#ifdef ELIBACC /* Linux */
	[ELIBACC] = "Can not access a needed shared library",
#endif
	[ENOTSOCK] = "Socket operation on non-socket",
	[EMSGSIZE] = "Message too long",
	[EPROTONOSUPPORT] = "Protocol not supported",
	[EOPNOTSUPP] = "Operation not supported",
	[EAFNOSUPPORT] = "Address family not supported by protocol",
	[EADDRINUSE] = "Address already in use",
	[EADDRNOTAVAIL] = "Cannot assign requested address",
	[ENETDOWN] = "Network is down",
	[ENETUNREACH] = "Network is unreachable",
	[ECONNABORTED] = "Software caused connection abort",
	[ECONNRESET] = "Connection reset by peer",
	[ENOBUFS] = "No buffer space available",
	[ENOTCONN] = "Transport endpoint is not connected",
	[ETIMEDOUT] = "Connection timed out",
	[ECONNREFUSED] = "Connection refused",
	[EHOSTUNREACH] = "No route to host",
	[EALREADY] = "Operation already in progress",
	[EINPROGRESS] = "Operation now in progress",
	[EDQUOT] = "Disk quota exceeded",
	[ECANCELED] = "Operation canceled",
};

const char *errtext(int err)
{
	const char *text = NULL;

	if (err == 0)
		return "Success";
	if (err > 0 && (size_t)err < sizeof(texts) / sizeof(texts[0]))
		text = texts[err];
	return text ? text : "another error";
}
