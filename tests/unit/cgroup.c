/* SPDX-License-Identifier: MIT */
/*
 * Tests that os_cgroup_cpus applies the cgroup quota of every level, in v1 and v2. The trees are in
 * a temporary directory.
 */
#define _GNU_SOURCE 1
#include "base/os_cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "check.h"

static char top[64];

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static void tree_end(void)
{
	nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void tree_begin(void)
{
	snprintf(top, sizeof(top), "/tmp/gmp-cgroup-XXXXXX");
	CHECK(mkdtemp(top) != NULL);
}

/* Write text to top/name; creates missing directories. */
static void put(const char *name, const char *text)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	for (char *p = strchr(path + strlen(top) + 1, '/'); p != NULL; p = strchr(p + 1, '/')) {
		*p = '\0';
		CHECK(mkdir(path, 0755) == 0 || errno == EEXIST);
		*p = '/';
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	CHECK(fd >= 0);
	CHECK_EQ(write(fd, text, strlen(text)), (long long)strlen(text));
	close(fd);
}

/* Returns the limit for these lines of /proc/self/cgroup and mountinfo; %s is top. */
static int cpus(const char *cgroup, const char *mountinfo)
{
	char text[2048], a[128], b[128];

	snprintf(text, sizeof(text), mountinfo, top, top, top);
	put("cgroup", cgroup);
	put("mountinfo", text);
	snprintf(a, sizeof(a), "%s/cgroup", top);
	snprintf(b, sizeof(b), "%s/mountinfo", top);
	return os_cgroup_cpus(a, b);
}

#define V2_MOUNT "24 1 0:22 / %s/fs rw,nosuid shared:5 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNT "32 31 0:29 / %s/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"

TEST(cgroup_missing_files_set_no_limit)
{
	tree_begin();
	CHECK_EQ(os_cgroup_cpus("/nowhere/cgroup", "/nowhere/mountinfo"), INT_MAX);
	CHECK_EQ(cpus("", ""), INT_MAX);
	CHECK_EQ(cpus("0::/a/b\n", V2_MOUNT), INT_MAX); /* mounted, but the directory is missing */
	tree_end();
}

TEST(cgroup_v2_quota_is_rounded_up_to_at_least_one)
{
	tree_begin();
	put("fs/a/cpu.max", "250000 100000\n");
	CHECK_EQ(cpus("0::/a\n", V2_MOUNT), 3);
	put("fs/a/cpu.max", "200000 100000\n");
	CHECK_EQ(cpus("0::/a\n", V2_MOUNT), 2);
	put("fs/a/cpu.max", "1000 100000\n");
	CHECK_EQ(cpus("0::/a\n", V2_MOUNT), 1);
	tree_end();
}

TEST(cgroup_v2_max_sets_no_limit)
{
	tree_begin();
	put("fs/a/cpu.max", "max 100000\n");
	CHECK_EQ(cpus("0::/a\n", V2_MOUNT), INT_MAX);
	tree_end();
}

TEST(cgroup_v2_lowest_quota_of_all_levels_wins)
{
	tree_begin();
	put("fs/a/b/c/cpu.max", "800000 100000\n");
	put("fs/a/b/cpu.max", "max 100000\n");
	put("fs/a/cpu.max", "500000 100000\n");
	CHECK_EQ(cpus("0::/a/b/c\n", V2_MOUNT), 5);
	put("fs/a/b/c/cpu.max", "400000 100000\n");
	CHECK_EQ(cpus("0::/a/b/c\n", V2_MOUNT), 4);
	put("fs/a/b/cpu.max", "300000 100000\n");
	CHECK_EQ(cpus("0::/a/b/c\n", V2_MOUNT), 3);
	put("fs/cpu.max", "20000 10000\n"); /* a container's own root */
	CHECK_EQ(cpus("0::/a/b/c\n", V2_MOUNT), 2);
	CHECK_EQ(cpus("0::/\n", V2_MOUNT), 2);
	tree_end();
}

TEST(cgroup_sibling_and_parent_of_mount_are_ignored)
{
	tree_begin();
	put("fs/a/cpu.max", "700000 100000\n");
	put("fs/ab/cpu.max", "100000 100000\n");
	put("cpu.max", "100000 100000\n"); /* above the mount */
	CHECK_EQ(cpus("0::/a\n", V2_MOUNT), 7);
	CHECK_EQ(cpus("0::/a/gone\n", V2_MOUNT), 7);
	tree_end();
}

TEST(cgroup_path_is_relative_to_root_of_mount)
{
	const char *mount = "24 1 0:22 /docker/x %s/fs rw - cgroup2 cgroup2 rw\n";

	tree_begin();
	put("fs/cpu.max", "600000 100000\n");
	put("fs/in/cpu.max", "300000 100000\n");
	put("fs/docker/x/in/cpu.max", "100000 100000\n");
	CHECK_EQ(cpus("0::/docker/x\n", mount), 6);
	CHECK_EQ(cpus("0::/docker/x/in\n", mount), 3);
	CHECK_EQ(cpus("0::/docker/xin\n", mount), 6); /* not below this mount: its root counts */
	tree_end();
}

TEST(cgroup_path_outside_namespace_falls_back_to_mount_root)
{
	tree_begin();
	put("fs/cpu.max", "300000 100000\n");
	put("other/cpu.max", "100000 100000\n");
	CHECK_EQ(cpus("0::/../other\n", V2_MOUNT), 3);
	tree_end();
}

TEST(cgroup_v1_quota_counts_at_all_levels)
{
	tree_begin();
	put("cpu/a/b/cpu.cfs_quota_us", "-1\n");
	put("cpu/a/b/cpu.cfs_period_us", "100000\n");
	CHECK_EQ(cpus("4:memory:/m\n3:cpu,cpuacct:/a/b\n", V1_MOUNT), INT_MAX);
	put("cpu/a/cpu.cfs_quota_us", "150000\n");
	put("cpu/a/cpu.cfs_period_us", "50000\n");
	CHECK_EQ(cpus("4:memory:/m\n3:cpu,cpuacct:/a/b\n", V1_MOUNT), 3);
	put("cpu/a/b/cpu.cfs_quota_us", "150000\n");
	CHECK_EQ(cpus("4:memory:/m\n3:cpu,cpuacct:/a/b\n", V1_MOUNT), 2);
	tree_end();
}

TEST(cgroup_v1_other_controllers_are_ignored)
{
	tree_begin();
	put("cpu/cpu.cfs_quota_us", "100000\n");
	put("cpu/cpu.cfs_period_us", "100000\n");
	CHECK_EQ(cpus("2:cpuacct,cpuset:/\n", V1_MOUNT), INT_MAX);
	CHECK_EQ(cpus("2:cpuacct,cpu:/\n",
		      "32 31 0:29 / %s/cpu rw - cgroup cgroup rw,cpuset,cpuacct\n"),
		 INT_MAX);
	CHECK_EQ(cpus("2:cpuacct,cpu:/\n", V1_MOUNT), 1);
	tree_end();
}

TEST(cgroup_v1_and_v2_mounted_lower_quota_wins)
{
	tree_begin();
	put("fs/cpu.max", "400000 100000\n");
	put("cpu/cpu.cfs_quota_us", "600000\n");
	put("cpu/cpu.cfs_period_us", "100000\n");
	CHECK_EQ(cpus("1:cpu:/\n0::/\n", V1_MOUNT V2_MOUNT), 4);
	put("fs/cpu.max", "900000 100000\n");
	CHECK_EQ(cpus("1:cpu:/\n0::/\n", V1_MOUNT V2_MOUNT), 6);
	tree_end();
}

TEST(cgroup_mount_point_escapes_are_decoded)
{
	tree_begin();
	put("my fs/a b/cpu.max", "300000 100000\n");
	CHECK_EQ(cpus("0::/a b\n", "24 1 0:22 / %s/my\\040fs rw - cgroup2 none rw\n"), 3);
	tree_end();
}

TEST(cgroup_malformed_files_set_no_limit)
{
	static const char *const bad[] = {
		"", "\n", "banana", "-5 100000", "100000", "100000 0", "99999999999999999999 1"
	};
	static const char *const mounts[] = { "\n",
					      " - \n",
					      " - cgroup2\n",
					      "1 2 3 - cgroup2 a b\n",
					      "1 2 3 / - cgroup2\n",
					      "a - b - cgroup2 - -\n" };

	tree_begin();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put("fs/cpu.max", bad[i]);
		CHECK_EQ(cpus("0::/\n", V2_MOUNT), INT_MAX);
	}
	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++)
		CHECK_EQ(cpus("0::/\n", mounts[i]), INT_MAX);
	put("fs/cpu.max", "200000 100000\n");
	CHECK_EQ(cpus("nonsense\n0:\n\n:\n", V2_MOUNT), INT_MAX);
	CHECK_EQ(cpus("nonsense\n0:\n\n:\n0::/", V2_MOUNT), 2);
	tree_end();
}
