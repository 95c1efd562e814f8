// SPDX-License-Identifier: MIT
#include "findings.h"

#include <string.h>

#include "../json.h"

void findings_init(struct findings *findings, struct console *console, bool json)
{
	memset(findings, 0, sizeof(*findings));
	findings->console = console;
	findings->json = json;
	findings->all = json_begin("check");
}

static struct json_object *add_object(struct findings *findings, const char *step, bool good)
{
	struct json_object *finding = json_object_new_object(), *all;

	json_add_text(finding, "status", good ? "ok" : "failed");
	json_add_text(finding, "text", findings->found.text);
	json_add_text(finding, "advice",
		      findings->advice.length > 0 ? findings->advice.text : NULL);
	if (!json_object_object_get_ex(findings->all, step, &all)) {
		all = json_object_new_array();
		json_object_object_add(findings->all, step, all);
	}
	json_object_array_add(all, finding);
	return finding;
}

bool findings_report(struct findings *findings, const char *step, bool good)
{
	if (!good && findings->first_failure.length == 0)
		strbuf_addf(&findings->first_failure, "%s: %s%s%s", step, findings->found.text,
			    findings->advice.length > 0 ? "; " : "", findings->advice.text);
	findings->latest = add_object(findings, step, good);
	if (!findings->json)
		print_result(findings->console, "%-11s %s", step, findings->found.text);
	if (!findings->json && findings->advice.length > 0)
		print_result(findings->console, "  -> %s", findings->advice.text);
	findings->found = findings->advice = (struct strbuf){ 0 };
	return good;
}
