// SPDX-License-Identifier: MIT
// Program for gmp-run: cancellation and pthread_exit run the destructors of C++ frames and of
// thread_local objects.
#include <atomic>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <pthread.h>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

std::atomic<bool> entered;

struct noisy {
	const char *name;
	explicit noisy(const char *n) : name(n)
	{
	}
	~noisy()
	{
		std::printf("end of %s\n", name);
	}
};

void touch()
{
	thread_local noisy local("thread_local");
	std::printf("begin of %s\n", local.name);
}

void *wait_for_cancel(void *)
{
	touch();
	noisy outer("outer");
	try {
		noisy inner("inner");
		timespec t = { 1000, 0 };

		entered = true;
		for (;;)
			nanosleep(&t, nullptr);
	} catch (...) {
		std::printf("caught\n");
		throw;
	}
	return nullptr;
}

void *leave(void *)
{
	touch();
	noisy frame("frame");
	pthread_exit(reinterpret_cast<void *>(5));
}

void run(void *(*fn)(void *), bool cancel)
{
	pthread_t t;
	void *got;

	if (pthread_create(&t, nullptr, fn, nullptr))
		std::printf("pthread_create failed\n");
	if (cancel) {
		timespec a_little = { 0, 1000000 };

		while (!entered)
			nanosleep(&a_little, nullptr);
		pthread_cancel(t);
	}
	if (pthread_join(t, &got))
		std::printf("pthread_join failed\n");
	std::printf("result %ld\n", reinterpret_cast<long>(got));
}

void count_and_throw(int &sum, std::mutex &lock, int i)
{
	try {
		if (i % 3 == 0)
			throw std::runtime_error("three");
		std::lock_guard<std::mutex> held(lock);
		sum += i;
	} catch (const std::runtime_error &) {
		std::lock_guard<std::mutex> held(lock);
		sum -= i;
	}
}

} // namespace

int main()
{
	std::vector<std::thread> threads;
	std::mutex lock;
	int sum = 0;

	run(wait_for_cancel, true);
	run(leave, false);
	for (int i = 0; i < 50; i++)
		threads.emplace_back(count_and_throw, std::ref(sum), std::ref(lock), i);
	for (auto &t : threads)
		t.join();
	std::printf("sum %d\n", sum);
	return 0;
}
