/* SPDX-License-Identifier: MIT */
/*
 * CPU quota: the minimum over all cgroups of the process, in versions 1 and 2.
 *
 * A process belongs to one group of each hierarchy. Each group from there up to the root of the
 * mount may have a quota, and the smallest one is in force. Version 2 has it in cpu.max, version 1
 * in cpu.cfs_quota_us and cpu.cfs_period_us. Both versions may be mounted; both are read.
 *
 * Invariants
 *   - A file that cannot be read or parsed means no quota.
 *   - Only directories on the process's own path, at or below the mount point, are read.
 */
#include "base/os_cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"

enum version { V1 = 1, V2 = 2 };

/* A line of mountinfo: the part `root` of the hierarchy is mounted at `point`. */
struct mount {
	enum version version;
	char *root;
	char *point;
};

/* Return whether the comma-separated list contains word. */
static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; p != NULL; p = strchr(p, ',')) {
		p += *p == ',';
		if (strncmp(p, word, n) == 0 && (p[n] == ',' || p[n] == '\0'))
			return true;
	}
	return false;
}

/* Read the first line of dir/file. Returns false without one. */
static bool cgroup_read_line(const char *dir, const char *file, char *buf, size_t n)
{
	char *path;

	if (asprintf(&path, "%s/%s", dir, file) < 0)
		return false;
	bool found = os_read_text(path, buf, n);

	free(path);
	return found;
}

/* Values that are not positive, as -1 or "max", mean no quota. */
static int whole_cpus(long long quota, long long period)
{
	long long n;

	if (quota <= 0 || period <= 0)
		return INT_MAX;
	n = (quota - 1) / period + 1;
	return n < INT_MAX ? (int)n : INT_MAX;
}

static int level_cpus(const char *dir, enum version version)
{
	char buf[64];
	long long quota, period;

	if (version == V2) {
		if (!cgroup_read_line(dir, "cpu.max", buf, sizeof(buf)))
			return INT_MAX;
		char *end;
		quota = strtoll(buf, &end, 10); /* "max": 0 */
		period = strtoll(end, NULL, 10);
	} else {
		if (!cgroup_read_line(dir, "cpu.cfs_quota_us", buf, sizeof(buf)))
			return INT_MAX;
		quota = strtoll(buf, NULL, 10);
		if (!cgroup_read_line(dir, "cpu.cfs_period_us", buf, sizeof(buf)))
			return INT_MAX;
		period = strtoll(buf, NULL, 10);
	}
	return whole_cpus(quota, period);
}

/* Return the path relative to the mount point, "" for the mount point itself. "" also serves for a
 * path outside the mount (the process was moved out of its cgroup namespace). */
static const char *below_mount(const struct mount *m, const char *path)
{
	size_t n = strcmp(m->root, "/") == 0 ? 0 : strlen(m->root);

	if (strncmp(path, m->root, n) != 0 || (path[n] != '/' && path[n] != '\0'))
		return "";
	path += n;
	if (strcmp(path, "/") == 0 || strncmp(path, "/..", 3) == 0)
		return "";
	return path;
}

static int mount_cpus(const struct mount *m, const char *path)
{
	char *dir;
	int cpus = INT_MAX;
	size_t top = strlen(m->point);

	if (asprintf(&dir, "%s%s", m->point, below_mount(m, path)) < 0)
		return INT_MAX;
	for (;;) {
		int n = level_cpus(dir, m->version);

		cpus = min_of(cpus, n);
		if (strlen(dir) <= top)
			break;
		*strrchr(dir + top, '/') =
			'\0'; /* the rest after the mount point begins with a '/' */
	}
	free(dir);
	return cpus;
}

/* mountinfo writes space, tab, newline and backslash as \ooo. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s != '\0'; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

/* Parse "31 23 0:28 ROOT POINT options [tags ...] - TYPE source SUPEROPTIONS" in place. Returns
 * false if it is not a cgroup mount with a cpu controller. */
static bool parse_mount(char *line, struct mount *m)
{
	char *rest = strstr(line, " - ");
	char *save, *type, *super;

	if (rest == NULL)
		return false;
	*rest = '\0';
	type = strtok_r(rest + 3, " \n", &save);
	strtok_r(NULL, " \n", &save);
	super = strtok_r(NULL, " \n", &save);
	if (type == NULL)
		return false;
	if (strcmp(type, "cgroup2") == 0)
		m->version = V2;
	else if (strcmp(type, "cgroup") == 0 && super != NULL && has_word(super, "cpu"))
		m->version = V1;
	else
		return false;

	strtok_r(line, " ", &save);
	strtok_r(NULL, " ", &save);
	strtok_r(NULL, " ", &save);
	m->root = strtok_r(NULL, " ", &save);
	m->point = strtok_r(NULL, " ", &save);
	if (m->root == NULL || m->point == NULL)
		return false;
	unescape(m->root);
	unescape(m->point);
	return true;
}

/* Return the process's path in the hierarchy, or NULL; the caller frees it. Lines of the file are
 * "ID:CONTROLLERS:PATH", of version 2 "0::PATH". */
static char *own_path(const char *cgroup_file, enum version version)
{
	FILE *f = fopen(cgroup_file, "re");
	char *line = NULL, *path = NULL;
	size_t cap = 0;

	while (f != NULL && path == NULL && getline(&line, &cap, f) > 0) {
		char *list = strchr(line, ':');
		char *end = list == NULL ? NULL : strchr(list + 1, ':');

		if (end == NULL)
			continue;
		*end++ = '\0';
		end[strcspn(end, "\n")] = '\0';
		if (version == V2 ? strcmp(line, "0:") == 0 : has_word(list + 1, "cpu"))
			path = strdup(end);
	}
	free(line);
	if (f != NULL)
		fclose(f);
	return path;
}

int os_cgroup_cpus(const char *cgroup_file, const char *mountinfo_file)
{
	FILE *f = fopen(mountinfo_file, "re");
	char *path[] = { [V1] = own_path(cgroup_file, V1), [V2] = own_path(cgroup_file, V2) };
	char *line = NULL;
	size_t cap = 0;
	int cpus = INT_MAX;

	while (f != NULL && getline(&line, &cap, f) > 0) {
		struct mount m;

		if (parse_mount(line, &m) && path[m.version] != NULL) {
			int n = mount_cpus(&m, path[m.version]);

			cpus = min_of(cpus, n);
		}
	}
	free(line);
	if (f != NULL)
		fclose(f);
	free(path[V1]);
	free(path[V2]);
	return cpus;
}
