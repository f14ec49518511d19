# SPDX-License-Identifier: MIT
"""Checks a /metrics document with the parser of the Prometheus client library, and names and types.

    check_metrics.py FILE
"""
import re
import sys

from prometheus_client.parser import text_string_to_metric_families


def check(cond, what):
    if not cond:
        sys.exit("check_metrics.py: %s" % what)


def check_summary(samples):
    """Quantiles exactly if there are measurements, which are the last sample."""
    quantiles = [s.labels["quantile"] for s in samples[:-1]]
    check(samples[-1].name.endswith("_count"), samples)
    check(quantiles == ("0.5 0.9 0.99 1".split() if samples[-1].value else []), samples)
    values = [s.value for s in samples[:-1]]
    check(values == sorted(values), samples)


def main(path):
    with open(path, "rb") as f:
        text = f.read().decode("utf-8", "strict")
    families = {}
    for family in text_string_to_metric_families(text):
        check(family.name not in families, "%s twice" % family.name)
        check(family.type in ("counter", "gauge", "summary"), family)
        check(family.documentation and family.samples, family)
        check(re.fullmatch("gmp_[a-z_]+", family.name), family.name)
        for s in family.samples:
            check(s.value >= 0, s)
            check((family.type == "counter") == s.name.endswith("_total"), s)
        families[family.name] = family
    for line in text.splitlines():
        check(re.fullmatch("# (HELP|TYPE) .+|gmp_[^ ]+ [0-9.]+", line), line)
    check(families["gmp_greens"].samples[0].value >= 19, families["gmp_greens"])
    check(families["gmp_spawns"].type == "counter", families["gmp_spawns"])
    check(families["gmp_info"].samples[0].labels["program"] == "server_target", "program")
    latency = families["gmp_latency_seconds"]
    causes = {s.labels["cause"] for s in latency.samples}
    check(causes == set("spawn yield timer descriptor blocking wake".split()), causes)
    check(all(s.value < 60 for s in latency.samples if "quantile" in s.labels), latency)
    for cause in causes:
        of = [s for s in latency.samples if s.labels["cause"] == cause]
        check_summary(of)
    total = families["gmp_latency_all_seconds"].samples
    check_summary(total)
    check(total[-1].value > 0, total)
    check(families["gmp_cpu_seconds"].type == "counter", families["gmp_cpu_seconds"])
    procs = int(families["gmp_procs"].samples[0].value)
    ps = [s.labels["p"] for s in families["gmp_p_queue"].samples]
    check(ps == [str(i) for i in range(procs)], ps)


main(sys.argv[1])
