/* SPDX-License-Identifier: MIT */
/*
 * Read small text files of sysfs, procfs and configfs, and find the name and folder of a device.
 *
 * Threads: any; no lock. A call can take long: the driver may have to ask the adapter's firmware.
 */
#ifndef RDMA_COMMON_SYSFS_H
#define RDMA_COMMON_SYSFS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A line of a file, without the newline and blanks at its end. The size suffices for a list of
 * processors with many gaps.
 */
struct sysfs_line {
	char text[4096];
};

/*
 * Return the first line that begins with `key` in the file that `format` names. The result is empty
 * if there is no such line, or the file cannot be read.
 */
struct sysfs_line sysfs_find_line(const char *key, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Return the first line of a file: sysfs_read_line(format, ...). */
#define sysfs_read_line(...) sysfs_find_line("", __VA_ARGS__)

/*
 * Read the number at the beginning of the file `name` in the folder that is open as `folder`
 * (openat(2)). If there is no number, or the file cannot be read, return false and leave `*number`
 * unchanged.
 */
bool sysfs_read_number(int folder, const char *name, uint64_t *number);

struct device_name {
	char text[IBV_SYSFS_NAME_MAX];
};

/*
 * Return the present name of a device. 'rdma dev set' can change the name of a device in use, but
 * libibverbs keeps the name that it found first. Return the latter if sysfs does not show a name.
 * sysfs may show the name of a later device if this one was removed.
 */
struct device_name device_name(struct ibv_device *device);

struct device_folder {
	char text[IBV_SYSFS_PATH_MAX];
};

/* Return the folder in sysfs of the device, whose present name is `name`. */
struct device_folder device_folder(struct ibv_device *device, const struct device_name *name);

#endif
