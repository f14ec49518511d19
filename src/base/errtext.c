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
	[ENODEV] = "No such device",
	[ENOTDIR] = "Not a directory",
	[EINVAL] = "Invalid argument",
	[ENFILE] = "Too many open files in system",
	[EMFILE] = "Too many open files",
	[ENOSPC] = "No space left on device",
	[EROFS] = "Read-only file system",
	[EPIPE] = "Broken pipe",
	[ENOSYS] = "Function not implemented",
	[EOPNOTSUPP] = "Operation not supported",
	[ETIMEDOUT] = "Connection timed out",
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
