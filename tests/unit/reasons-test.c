// SPDX-License-Identifier: MIT
/* The texts for the reasons why a connection is not set up. */
#include "rdma-common/reasons.h"

#include "unit.h"

/* Number of the last reason in the InfiniBand Architecture Specification, volume 1, 12.6.7.2. */
#define LAST_REASON 33

TEST(every_reason_of_the_specification_has_its_own_name)
{
	for (int status = 1; status <= LAST_REASON; status++) {
		assert_non_null(rejection_describe(status));
		assert_non_null(rejection_advice(status));
		for (int other = 1; other < status; other++)
			assert_string_not_equal(rejection_describe(status),
						rejection_describe(other));
	}
	assert_string_equal(rejection_describe(REJECTION_INVALID_SERVICE_ID), "invalid service ID");
	assert_string_equal(rejection_describe(REJECTION_STALE_CONNECTION), "stale connection");
	assert_string_equal(rejection_describe(REJECTION_CONSUMER_DEFINED), "consumer defined");
}

TEST(an_unknown_reason_has_advice_but_no_name)
{
	static const int unknown[] = { -ECONNRESET, -ECONNREFUSED, 0, LAST_REASON + 1, INT32_MAX };

	EACH_ROW (i, unknown) {
		assert_null(rejection_describe(unknown[i]));
		assert_non_null(rejection_advice(unknown[i]));
	}
	assert_string_equal(rejection_advice(-ECONNREFUSED),
			    rejection_advice(REJECTION_INVALID_SERVICE_ID));
	assert_string_not_equal(rejection_advice(0), rejection_advice(-ECONNREFUSED));
}

TEST(advice_names_the_rdma_cgroup_only_for_errors_it_causes)
{
	assert_non_null(strstr(shortage_advice(EAGAIN), "rdma.max"));
	assert_null(strstr(shortage_advice(ENOMEM), "rdma.max"));
	assert_null(shortage_advice(EPERM));
	assert_non_null(strstr(cgroup_advice(EAGAIN), "rdma.max"));
	assert_non_null(strstr(cgroup_advice(EPERM), "rdma.max"));
	assert_null(cgroup_advice(ENOMEM));
	assert_null(cgroup_advice(ENETUNREACH));
}

TEST(advice_on_a_missing_device_names_the_likely_cause)
{
	static const struct {
		bool present, openable, exclusive;
		const char *text;
	} rows[] = {
		{ true, true, false, "libibverbs has no driver for it" },
		{ true, true, true, "libibverbs has no driver for it" },
		{ true, false, false, "this process cannot open its file /dev/infiniband/uverbs*" },
		{ false, true, true, "exclusive mode" },
		{ false, false, true, "exclusive mode" },
		{ false, true, false, "rdma link add rdma0 type rxe" },
		{ false, false, false, "rdma link add rdma0 type rxe" },
	};

	EACH_ROW (i, rows)
		assert_non_null(strstr(
			missing_device_advice(rows[i].present, rows[i].openable, rows[i].exclusive),
			rows[i].text));
}

RUN_TESTS(NULL, NULL)
