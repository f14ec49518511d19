// SPDX-License-Identifier: MIT
//
// Measures Java's virtual threads on the same work.
//
// The scheduler has PROCS carriers.  A part of the work runs first, so that the measured code has
// been compiled.  Channels are SynchronousQueue and ArrayBlockingQueue; a last element of -1 closes
// them.

import java.io.IOException;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

public class Peer {
    interface Work {
        void run(Row r) throws Throwable;
    }

    interface Body {
        void run() throws Throwable;
    }

    record Row(String name, int procs, int n, int count) {
        void value(String what, String unit, double v) {
            System.out.printf(
                    "{\"name\": \"%s%s%s\", \"procs\": %d, \"count\": %d, \"%s\": %.4f}%n",
                    name, what.isEmpty() ? "" : ":", what, procs, count, unit, v);
        }

        void took(long ns, long ops) {
            value("", "ns", (double) ns / ops);
        }
    }

    static void check(boolean ok, String what) {
        if (!ok) {
            System.err.println(what);
            Runtime.getRuntime().halt(1);
        }
    }

    /** Thread.startVirtualThread, by a handle: so an older compiler will do. */
    private static final MethodHandle START;

    static {
        try {
            START = MethodHandles.lookup().findStatic(Thread.class, "startVirtualThread",
                    MethodType.methodType(Thread.class, Runnable.class));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    static Thread start(Body b) {
        try {
            return (Thread) START.invokeExact((Runnable) () -> {
                try {
                    b.run();
                } catch (Throwable e) {
                    e.printStackTrace();
                    Runtime.getRuntime().halt(1);
                }
            });
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }

    static volatile boolean go, stop;

    static void yields(Row r) throws Throwable {
        int others = r.n - 1, rounds = r.count / r.n;
        AtomicInteger arrived = new AtomicInteger();
        AtomicLong total = new AtomicLong();
        CountDownLatch all = new CountDownLatch(others);
        for (int i = 0; i < others; i++)
            start(() -> {
                long n = 0;
                arrived.incrementAndGet();
                while (!go)
                    Thread.yield();
                while (!stop) {
                    Thread.yield();
                    n++;
                }
                total.addAndGet(n);
                all.countDown();
            });
        while (arrived.get() < others)
            Thread.yield();
        for (int i = 0; i < rounds / 8 + 2; i++)
            Thread.yield();
        long t0 = System.nanoTime();
        go = true;
        for (int i = 0; i < rounds; i++)
            Thread.yield();
        long ns = System.nanoTime() - t0;
        stop = true;
        all.await();
        check(total.get() > 0, "no other thread yielded");
        r.took(ns, total.get() + rounds);
    }

    static void batch(int n, AtomicInteger ran) throws Throwable {
        CountDownLatch all = new CountDownLatch(n);
        for (int i = 0; i < n; i++)
            start(() -> {
                ran.incrementAndGet();
                all.countDown();
            });
        all.await();
    }

    static void spawns(Row r) throws Throwable {
        AtomicInteger ran = new AtomicInteger();
        int rounds = r.count / r.n, warm = rounds / 8 + 1;
        for (int i = 0; i < warm; i++)
            batch(r.n, ran);
        long t0 = System.nanoTime();
        for (int i = 0; i < rounds; i++)
            batch(r.n, ran);
        long ns = System.nanoTime() - t0;
        check(ran.get() == (warm + rounds) * r.n, ran + " ran");
        r.took(ns, (long) rounds * r.n);
    }

    static void joins(int n, AtomicInteger ran) throws Throwable {
        for (int i = 0; i < n; i++)
            start(ran::incrementAndGet).join();
    }

    static void join(Row r) throws Throwable {
        AtomicInteger ran = new AtomicInteger();
        joins(r.count / 8, ran);
        long t0 = System.nanoTime();
        joins(r.count, ran);
        r.took(System.nanoTime() - t0, r.count);
        check(ran.get() == r.count / 8 + r.count, ran + " ran");
    }

    static long fibOf(int n) throws InterruptedException {
        if (n < 2)
            return n;
        long[] a = new long[1];
        Thread left = start(() -> a[0] = fibOf(n - 1));
        long b = fibOf(n - 2);
        left.join();
        return a[0] + b;
    }

    /** The largest n whose tree of calls has at most so many threads, its result, its threads. */
    static long[] fibTree(long most) {
        long a = 0, b = 1, spawns = 0, before = 0;
        for (int n = 1;; n++) {
            long next = 1 + spawns + before;
            if (next > most)
                return new long[] { n, b, spawns };
            before = spawns;
            spawns = next;
            b += a;
            a = b - a;
        }
    }

    static void fib(Row r) throws Throwable {
        long[] warm = fibTree(r.count / 8), tree = fibTree(r.count);
        check(fibOf((int) warm[0]) == warm[1], "a wrong sum");
        long t0 = System.nanoTime();
        long got = fibOf((int) tree[0]);
        long ns = System.nanoTime() - t0;
        check(got == tree[1], "fib(" + tree[0] + ") is not " + got);
        r.took(ns, tree[2]);
    }

    static void ping(Row r) throws Throwable {
        SynchronousQueue<Long> there = new SynchronousQueue<>(), back = new SynchronousQueue<>();
        long warm = r.count / 8, t0 = 0;
        Thread other = start(() -> {
            for (long i = 0; i < r.count + warm; i++)
                back.put(there.take() + 1);
        });
        for (long i = -warm; i < r.count; i++) {
            if (i == 0)
                t0 = System.nanoTime();
            there.put(i);
            long v = back.take();
            check(v == i + 1, "got " + v);
        }
        r.took(System.nanoTime() - t0, r.count);
        other.join();
    }

    static void passOnce(int n, int count, BlockingQueue<Long> c) throws Throwable {
        int each = count / n;
        AtomicLong received = new AtomicLong(), sum = new AtomicLong();
        CountDownLatch sent = new CountDownLatch(n), done = new CountDownLatch(n);
        long want = 0;
        for (int p = 0; p < n; p++) {
            int me = p;
            start(() -> {
                for (long i = 0; i < each; i++)
                    c.put(i * 8 + me);
                sent.countDown();
            });
            start(() -> {
                long k = 0, s = 0, v;
                while ((v = c.take()) >= 0) {
                    k++;
                    s += v;
                }
                received.addAndGet(k);
                sum.addAndGet(s);
                done.countDown();
            });
            want += (long) each * me + 8 * ((long) each * (each - 1) / 2);
        }
        sent.await();
        for (int p = 0; p < n; p++)
            c.put(-1L);
        done.await();
        check(received.get() == (long) each * n && sum.get() == want, received + " received");
    }

    static void passOn(Row r, BlockingQueue<Long> c) throws Throwable {
        passOnce(r.n, r.count / 8, c);
        long t0 = System.nanoTime();
        passOnce(r.n, r.count, c);
        r.took(System.nanoTime() - t0, r.count);
    }

    static void sieve(Row r) throws Throwable {
        SynchronousQueue<Integer> c = new SynchronousQueue<>();
        SynchronousQueue<Integer> first = c;
        int prime = 0;
        long t0 = System.nanoTime();
        start(() -> {
            for (int i = 2;; i++)
                first.put(i);
        });
        for (int i = 0; i < r.n; i++) {
            SynchronousQueue<Integer> in = c, out = new SynchronousQueue<>();
            int p = in.take();
            start(() -> {
                for (;;) {
                    int v = in.take();
                    if (v % p != 0)
                        out.put(v);
                }
            });
            c = out;
            prime = p;
        }
        r.value("", "ms", (System.nanoTime() - t0) / 1e6);
        check(r.n != 1500 || prime == 12553, "the 1,500th prime is not " + prime);
    }

    static long together(int n, Body body) throws Throwable {
        CountDownLatch done = new CountDownLatch(n);
        long t0 = System.nanoTime();
        for (int i = 0; i < n; i++)
            start(() -> {
                body.run();
                done.countDown();
            });
        done.await();
        return System.nanoTime() - t0;
    }

    static long counter;

    static void mutex(Row r) throws Throwable {
        ReentrantLock m = new ReentrantLock();
        int n = Math.max(r.n, 1), each = r.count / n;
        Body body = () -> {
            for (int i = 0; i < each; i++) {
                m.lock();
                counter++;
                m.unlock();
            }
        };
        together(n, body);
        counter = 0;
        long ns = together(n, body);
        check(counter == (long) each * n, "counter is " + counter);
        r.took(ns, r.count);
    }

    static void readers(Row r) throws Throwable {
        ReentrantReadWriteLock rw = new ReentrantReadWriteLock();
        AtomicLong seen = new AtomicLong();
        int each = r.count / r.n;
        Body body = () -> {
            long sum = 0;
            for (int i = 0; i < each; i++) {
                rw.readLock().lock();
                sum += counter;
                rw.readLock().unlock();
            }
            seen.addAndGet(sum);
        };
        counter = 1;
        together(r.n, body);
        seen.set(0);
        long ns = together(r.n, body);
        check(seen.get() == (long) each * r.n, seen + " reads");
        r.took(ns, r.count);
    }

    static void lateness(Row r, long[] late) {
        Arrays.sort(late);
        check(late[0] >= 0, "one woke " + -late[0] + " ns too early");
        r.value("p50", "ns", late[late.length / 2]);
        r.value("p99", "ns", late[(int) (late.length * 99L / 100)]);
    }

    static void sleepAlone(Row r) throws Throwable {
        long[] late = new long[r.count];
        for (int i = 0; i < r.count; i++) {
            long t0 = System.nanoTime();
            TimeUnit.NANOSECONDS.sleep(r.n);
            late[i] = System.nanoTime() - t0 - r.n;
        }
        lateness(r, late);
    }

    /** CPU time of the process in ms: ticks of 10 ms, after the name in brackets. */
    static double cpu() throws IOException {
        String s = Files.readString(Path.of("/proc/self/stat"));
        String[] f = s.substring(s.lastIndexOf(')') + 2).split(" ");
        return (Double.parseDouble(f[11]) + Double.parseDouble(f[12])) * 10;
    }

    static void sleepers(Row r) throws Throwable {
        long[] late = new long[r.n];
        CountDownLatch done = new CountDownLatch(r.n);
        long x = 88172645463325252L;
        double before = cpu();
        for (int i = 0; i < r.n; i++) {
            x ^= x << 13;
            x ^= x >>> 7;
            x ^= x << 17;
            int me = i;
            long wish = 1000000 + Long.remainderUnsigned(x, 999000000);
            start(() -> {
                long t0 = System.nanoTime();
                TimeUnit.NANOSECONDS.sleep(wish);
                late[me] = System.nanoTime() - t0 - wish;
                done.countDown();
            });
        }
        done.await();
        r.value("cpu", "ms", cpu() - before);
        lateness(r, late);
    }

    /** In bytes. */
    static long status(String... whats) throws IOException {
        long sum = 0;
        for (String line : Files.readAllLines(Path.of("/proc/self/status")))
            for (String what : whats)
                if (line.startsWith(what + ":"))
                    sum += Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
        return sum;
    }

    static void tasks(Row r) throws Throwable {
        AtomicInteger begun = new AtomicInteger(), ran = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        CountDownLatch all = new CountDownLatch(r.count);
        long before = status("VmRSS", "VmPTE"), t0 = System.nanoTime();
        for (int i = 0; i < r.count; i++)
            start(() -> {
                int alive = begun.incrementAndGet() - ran.get();
                if (alive > most.get())
                    most.set(alive);
                Thread.sleep(10);
                ran.incrementAndGet();
                all.countDown();
            });
        all.await();
        long ns = System.nanoTime() - t0;
        check(ran.get() == r.count, ran + " ran");
        double peak = status("VmHWM", "VmPTE") - before;
        r.took(ns, r.count);
        r.value("peak", "bytes", peak);
        r.value("alive", "bytes", peak / most.get());
    }

    /** What lives in the heap after a collection, parked stacks too; the heap is larger. */
    static void memory(Row r) throws Throwable {
        AtomicInteger arrived = new AtomicInteger();
        Thread[] all = new Thread[r.n];
        System.gc();
        Runtime heap = Runtime.getRuntime();
        long used = heap.totalMemory() - heap.freeMemory();
        for (int i = 0; i < r.n; i++)
            all[i] = start(() -> {
                arrived.incrementAndGet();
                if (r.name.startsWith("memory/wait"))
                    LockSupport.park();
                else
                    Thread.sleep(3600000);
            });
        while (arrived.get() < r.n)
            Thread.sleep(1);
        Thread.sleep(100);
        System.gc();
        used = heap.totalMemory() - heap.freeMemory() - used;
        check(all[r.n - 1].isAlive(), "it woke");
        r.value("", "bytes", (double) used / r.n);
    }

    static final Map<String, Work> rows = new LinkedHashMap<>();

    static void both(String name, Work w) {
        rows.put(name + "\t1", w);
        rows.put(name + "\t2", w);
    }

    public static void main(String[] a) throws Throwable {
        both("yield/2", Peer::yields);
        both("yield/1000", Peer::yields);
        both("yield/100000", Peer::yields);
        both("spawn/1", Peer::spawns);
        both("spawn/1000", Peer::spawns);
        both("spawn/100000", Peer::spawns);
        both("join/1", Peer::join);
        both("fib", Peer::fib);
        both("ping/chan", Peer::ping);
        both("chan/1x1", r -> passOn(r, new ArrayBlockingQueue<>(128)));
        both("chan/8x8", r -> passOn(r, new ArrayBlockingQueue<>(128)));
        rows.put("chan/8x8 unbuffered\t2", r -> passOn(r, new SynchronousQueue<>()));
        both("sieve/1500", Peer::sieve);
        rows.put("mutex/alone\t1", Peer::mutex);
        both("mutex/8", Peer::mutex);
        both("rwmutex/8 readers", Peer::readers);
        both("sleep/100us", Peer::sleepAlone);
        rows.put("sleepers/100000\t2", Peer::sleepers);
        both("pool/green", Peer::tasks);
        for (String kind : new String[] { "wait", "sleep" })
            for (String n : new String[] { "100000", "1000000" })
                rows.put("memory/" + kind + "/" + n + "\t1", Peer::memory);
        if (a.length == 1 && a[0].equals("--rows")) {
            rows.keySet().forEach(System.out::println);
            return;
        }
        check(a.length == 4, "usage: java ROW PROCS N COUNT, or --rows");
        Work w = rows.get(a[0] + "\t" + a[1]);
        check(w != null, "no row " + a[0] + " with " + a[1] + " Ps");
        Row r = new Row(a[0], Integer.parseInt(a[1]), Integer.parseInt(a[2]),
                Integer.parseInt(a[3]));
        start(() -> w.run(r)).join();
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
