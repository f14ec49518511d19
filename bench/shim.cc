// SPDX-License-Identifier: MIT
//
// Adapter between the C benchmarks and Google Benchmark: runs each row and reports its time.
//
// It registers the rows, starts a runtime for each, and adds a reporter (--lines) that prints a
// row as one line of JSON, in the form of the peers.  --list prints the rows.  --scale=X multiplies
// the number of operations of each row by X.
//
// A row is one process: bench/run starts the program again for each row, with --benchmark_filter,
// so that no row finds the caches, the heap or the stacks of another row.

#include "shim.h"

#include <benchmark/benchmark.h>
#include <gmp.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>
#include <unistd.h>

struct bench_value_entry {
	std::string what, unit;
	double value;
};

struct bench_state {
	const bench_case *c;
	int64_t ns = 0;
	int64_t ops = 0;
	std::vector<bench_value_entry> values;
};

static bench_case *cases;
static const bench_case *running;
static std::map<std::string, const bench_case *> by_name;

extern "C" {

void bench_register(bench_case *c)
{
	bench_case **at = &cases;

	while (*at)
		at = &(*at)->next;
	*at = c;
}

const bench_case *bench_this(const bench_state *st)
{
	return st->c;
}

void bench_time(bench_state *st, int64_t ns, int64_t ops)
{
	st->ns = ns;
	st->ops = ops;
}

void bench_value(bench_state *st, const char *what, const char *unit, double v)
{
	st->values.push_back({ what, unit, v });
}

double bench_median(double *v, size_t n)
{
	std::sort(v, v + n);
	return n ? v[n / 2] : 0;
}

void bench_fail(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "bench: %s with %d Ps: ", running ? running->name : "?",
		running ? running->procs : 0);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	fflush(stderr);
	// Not exit(): other green threads may still run.
	_exit(1);
}

static void enter(void *arg)
{
	bench_state *st = static_cast<bench_state *>(arg);

	st->c->fn(st);
}

} // extern "C"

static std::string full_name(const bench_case *c)
{
	return std::string(c->name) + "/procs:" + std::to_string(c->procs);
}

static void run_case(benchmark::State &state, const bench_case *c)
{
	int64_t iterations = static_cast<int64_t>(state.max_iterations);
	bench_state st;

	st.c = running = c;
	while (state.KeepRunningBatch(iterations)) {
		int64_t t0 = bench_clock();

		if (c->procs == 0) {
			c->fn(&st);
		} else {
			gmp_config cfg = {};

			cfg.size = sizeof(cfg);
			cfg.procs = c->procs;
			cfg.stack_size = c->stack;
			cfg.flags = c->flags;
			int err = gmp_run(enter, &st, &cfg);
			bench_check(err == 0, "gmp_run: %s", strerror(-err));
		}
		bench_check(st.ops > 0 || !st.values.empty(), "reported nothing");
		if (st.ops > 0)
			state.SetIterationTime(1e-9 * st.ns / st.ops * iterations);
		else
			state.SetIterationTime(1e-9 * (bench_clock() - t0));
	}
	for (const bench_value_entry &v : st.values)
		state.counters[v.what + "|" + v.unit] = v.value;
}

class LineReporter : public benchmark::BenchmarkReporter {
public:
	bool ReportContext(const Context &) override
	{
		return true;
	}

	void ReportRuns(const std::vector<Run> &runs) override
	{
		for (const Run &run : runs) {
			const bench_case *c = by_name.at(run.run_name.function_name);

			if (run.counters.empty())
				line(c, "", "ns", run.GetAdjustedRealTime());
			for (const auto &v : run.counters) {
				size_t bar = v.first.find('|');

				line(c, v.first.substr(0, bar), v.first.substr(bar + 1),
				     v.second.value);
			}
		}
	}

private:
	static void line(const bench_case *c, const std::string &what, const std::string &unit,
			 double value)
	{
		printf("{\"name\": \"%s%s%s\", \"procs\": %d, \"count\": %lld, \"%s\": %.4f}\n",
		       c->name, what.empty() ? "" : ":", what.c_str(), c->procs,
		       static_cast<long long>(c->count), unit.c_str(), value);
		fflush(stdout);
	}
};

// Returns the scaled number of operations: at least a thousand, at least four for each green
// thread, and a multiple of the number of green threads.
static int64_t scaled(const bench_case *c, double scale)
{
	int64_t n = c->n > 0 ? c->n : 1, least = std::max<int64_t>(1000, 4 * n);
	int64_t count = std::max(static_cast<int64_t>(scale * c->count), least);

	return count < c->count ? (count + n - 1) / n * n : c->count;
}

int main(int argc, char **argv)
{
	bool lines = false, list = false;
	double scale = 1;
	int n = 1;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--lines") == 0)
			lines = true;
		else if (strcmp(argv[i], "--list") == 0)
			list = true;
		else if (strncmp(argv[i], "--scale=", 8) == 0)
			scale = atof(argv[i] + 8);
		else
			argv[n++] = argv[i];
	}
	argc = n;
	argv[argc] = nullptr;
	for (bench_case *c = cases; c; c = c->next) {
		c->count = scaled(c, scale);
		if (list)
			printf("%s\t%d\t%lld\t%lld\n", c->name, c->procs,
			       static_cast<long long>(c->n), static_cast<long long>(c->count));
		by_name[full_name(c)] = c;
		benchmark::RegisterBenchmark(full_name(c).c_str(), run_case, c)
			->Iterations(c->count)
			->UseManualTime();
	}
	if (list)
		return 0;
	benchmark::Initialize(&argc, argv);
	if (benchmark::ReportUnrecognizedArguments(argc, argv))
		return 2;
	if (lines) {
		LineReporter reporter;

		return benchmark::RunSpecifiedBenchmarks(&reporter) == 0;
	}
	return benchmark::RunSpecifiedBenchmarks() == 0;
}
