// SPDX-License-Identifier: MIT
//
// Measures tokio on the same work: its multi-thread runtime with PROCS workers.
//
// The first task runs on a worker.  A tokio channel has a buffer of at least one element and a
// single receiver: in "chan/8x8" the eight receivers share it under a mutex.

#[path = "../../common/peer.rs"]
mod peer;

use peer::*;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, Mutex, Notify, RwLock};
use tokio::task::yield_now;
use tokio::{spawn, time::sleep};

/// Waits until `n` tasks have ended.
struct Wg {
    left: AtomicUsize,
    over: Notify,
}

impl Wg {
    fn new(n: usize) -> Arc<Wg> {
        Arc::new(Wg { left: AtomicUsize::new(n), over: Notify::new() })
    }

    fn done(&self) {
        if self.left.fetch_sub(1, AcqRel) == 1 {
            self.over.notify_one();
        }
    }

    async fn wait(&self) {
        self.over.notified().await;
    }
}

async fn yields(j: Job) {
    let (others, rounds) = (j.n - 1, j.count / j.n);
    let flags = Arc::new((AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0)));
    let mut handles = Vec::new();
    for _ in 0..others {
        let f = flags.clone();
        handles.push(spawn(async move {
            let mut n = 0;
            f.2.fetch_add(1, Relaxed);
            while !f.0.load(Relaxed) {
                yield_now().await;
            }
            while !f.1.load(Relaxed) {
                yield_now().await;
                n += 1;
            }
            n
        }));
    }
    while flags.2.load(Relaxed) < others {
        yield_now().await;
    }
    let t0 = Instant::now();
    flags.0.store(true, Relaxed);
    for _ in 0..rounds {
        yield_now().await;
    }
    let d = t0.elapsed();
    flags.1.store(true, Relaxed);
    let mut total = rounds;
    for h in handles {
        total += h.await.unwrap();
    }
    assert!(total > rounds, "no other task yielded");
    j.took(d, total);
}

async fn batch(n: usize, ran: &Arc<AtomicUsize>) {
    let all = Wg::new(n);
    for _ in 0..n {
        let (all, ran) = (all.clone(), ran.clone());
        spawn(async move {
            ran.fetch_add(1, Relaxed);
            all.done();
        });
    }
    all.wait().await;
}

async fn spawns(j: Job) {
    let ran = Arc::new(AtomicUsize::new(0));
    let rounds = j.count / j.n;
    let warm = rounds / 8 + 1;
    for _ in 0..warm {
        batch(j.n, &ran).await;
    }
    let t0 = Instant::now();
    for _ in 0..rounds {
        batch(j.n, &ran).await;
    }
    let d = t0.elapsed();
    assert_eq!(ran.load(Relaxed), (warm + rounds) * j.n);
    j.took(d, rounds * j.n);
}

async fn join(j: Job) {
    let t0 = Instant::now();
    let mut sum = 0;
    for _ in 0..j.count {
        sum += spawn(async { 1 }).await.unwrap();
    }
    let d = t0.elapsed();
    assert_eq!(sum, j.count);
    j.took(d, j.count);
}

fn fib_of(n: u32) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if n < 2 {
            return n as u64;
        }
        let left = spawn(fib_of(n - 1));
        let b = fib_of(n - 2).await;
        left.await.unwrap() + b
    })
}

async fn fib(j: Job) {
    let (n, want, _) = fib_tree(j.count / 8);
    assert_eq!(fib_of(n).await, want);
    let (n, want, spawns) = fib_tree(j.count);
    let t0 = Instant::now();
    let got = fib_of(n).await;
    let d = t0.elapsed();
    assert_eq!(got, want);
    j.took(d, spawns);
}

async fn ping(j: Job) {
    let (there, mut from) = mpsc::channel(1);
    let (to, mut back) = mpsc::channel(1);
    let other = spawn(async move {
        while let Some(v) = from.recv().await {
            to.send(v + 1).await.unwrap();
        }
    });
    let warm = (j.count / 8) as i64;
    let mut t0 = Instant::now();
    for i in -warm..j.count as i64 {
        if i == 0 {
            t0 = Instant::now();
        }
        there.send(i).await.unwrap();
        assert_eq!(back.recv().await, Some(i + 1));
    }
    let d = t0.elapsed();
    drop(there);
    other.await.unwrap();
    j.took(d, j.count);
}

async fn pass_on(j: Job) {
    let each = j.count / j.n;
    let (send, receive) = mpsc::channel::<u64>(128);
    let receive = Arc::new(Mutex::new(receive));
    let mut handles = Vec::new();
    let t0 = Instant::now();
    for me in 0..j.n {
        let send = send.clone();
        spawn(async move {
            for i in 0..each {
                send.send((i * 8 + me) as u64).await.unwrap();
            }
        });
        let receive = receive.clone();
        let alone = j.n == 1;
        handles.push(spawn(async move {
            let (mut n, mut sum) = (0, 0);
            if alone {
                let mut r = receive.lock().await;
                while let Some(v) = r.recv().await {
                    n += 1;
                    sum += v;
                }
                return (n, sum);
            }
            while let Some(v) = receive.lock().await.recv().await {
                n += 1;
                sum += v;
            }
            (n, sum)
        }));
    }
    drop(send);
    let (mut n, mut sum) = (0, 0);
    for h in handles {
        let r = h.await.unwrap();
        n += r.0;
        sum += r.1;
    }
    let d = t0.elapsed();
    assert_eq!((n, sum), (each * j.n, sum_of(j.n, each)));
    j.took(d, j.count);
}

async fn sieve(j: Job) {
    let (send, mut c) = mpsc::channel::<u64>(1);
    let mut primes = Vec::new();
    let t0 = Instant::now();
    spawn(async move {
        let mut i = 2;
        while send.send(i).await.is_ok() {
            i += 1;
        }
    });
    for _ in 0..j.n {
        let p = c.recv().await.unwrap();
        primes.push(p);
        let (out, next) = mpsc::channel::<u64>(1);
        let mut from = std::mem::replace(&mut c, next);
        spawn(async move {
            while let Some(v) = from.recv().await {
                if v % p != 0 && out.send(v).await.is_err() {
                    break;
                }
            }
        });
    }
    j.value("", "ms", t0.elapsed().as_nanos() as f64 / 1e6);
    assert_eq!(primes[1499], 12553);
}

async fn mutex_alone(j: Job) {
    let m = Mutex::new(0);
    let t0 = Instant::now();
    for _ in 0..j.count {
        *m.lock().await += 1;
    }
    let d = t0.elapsed();
    assert_eq!(*m.lock().await, j.count);
    j.took(d, j.count);
}

async fn mutex(j: Job) {
    let (m, each) = (Arc::new(Mutex::new(0)), j.count / j.n);
    let t0 = Instant::now();
    let handles: Vec<_> = (0..j.n)
        .map(|_| {
            let m = m.clone();
            spawn(async move {
                for _ in 0..each {
                    *m.lock().await += 1;
                }
            })
        })
        .collect();
    for h in handles {
        h.await.unwrap();
    }
    let d = t0.elapsed();
    assert_eq!(*m.lock().await, each * j.n);
    j.took(d, j.count);
}

async fn readers(j: Job) {
    let (rw, each) = (Arc::new(RwLock::new(1)), j.count / j.n);
    let seen = Arc::new(AtomicU64::new(0));
    let t0 = Instant::now();
    let handles: Vec<_> = (0..j.n)
        .map(|_| {
            let (rw, seen) = (rw.clone(), seen.clone());
            spawn(async move {
                let mut sum = 0;
                for _ in 0..each {
                    sum += *rw.read().await;
                }
                seen.fetch_add(sum, Relaxed);
            })
        })
        .collect();
    for h in handles {
        h.await.unwrap();
    }
    let d = t0.elapsed();
    assert_eq!(seen.load(Relaxed) as usize, each * j.n);
    j.took(d, j.count);
}

/// Creates each timer, registers it by a first poll, and drops it.
async fn timer_create(j: Job) {
    let t0 = Instant::now();
    for _ in 0..j.count {
        let mut s = Box::pin(sleep(Duration::from_secs(3600)));
        let ready = poll_fn(|cx| Poll::Ready(s.as_mut().poll(cx).is_ready())).await;
        assert!(!ready);
    }
    j.took(t0.elapsed(), j.count);
}

async fn timer_reset(j: Job) {
    let mut s = Box::pin(sleep(Duration::from_secs(3600)));
    let t0 = Instant::now();
    for _ in 0..j.count {
        s.as_mut().reset(tokio::time::Instant::now() + Duration::from_secs(3600));
        let ready = poll_fn(|cx| Poll::Ready(s.as_mut().poll(cx).is_ready())).await;
        assert!(!ready);
    }
    j.took(t0.elapsed(), j.count);
}

async fn sleep_alone(j: Job) {
    let mut late = Vec::new();
    for _ in 0..j.count {
        let t0 = Instant::now();
        sleep(Duration::from_nanos(j.n as u64)).await;
        late.push(t0.elapsed().as_nanos() as i64 - j.n as i64);
    }
    j.lateness(&mut late);
}

async fn sleepers(j: Job) {
    let cpu = cpu_ms();
    let handles: Vec<_> = sleeps(j.n)
        .into_iter()
        .map(|wish| {
            spawn(async move {
                let t0 = Instant::now();
                sleep(Duration::from_nanos(wish)).await;
                t0.elapsed().as_nanos() as i64 - wish as i64
            })
        })
        .collect();
    let mut late = Vec::new();
    for h in handles {
        late.push(h.await.unwrap());
    }
    j.value("cpu", "ms", cpu_ms() - cpu);
    j.lateness(&mut late);
}

async fn tasks(j: Job) {
    let (begun, ran, most) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let counts = Arc::new((begun, ran, most));
    let all = Wg::new(j.count);
    let before = memory_now();
    let t0 = Instant::now();
    for _ in 0..j.count {
        let (all, counts) = (all.clone(), counts.clone());
        spawn(async move {
            let alive = counts.0.fetch_add(1, Relaxed) + 1 - counts.1.load(Relaxed);
            counts.2.fetch_max(alive, Relaxed);
            sleep(Duration::from_millis(10)).await;
            counts.1.fetch_add(1, Relaxed);
            all.done();
        });
    }
    all.wait().await;
    let d = t0.elapsed();
    assert_eq!(counts.1.load(Relaxed), j.count);
    let peak = memory_peak() - before;
    j.took(d, j.count);
    j.value("peak", "bytes", peak);
    j.value("alive", "bytes", peak / counts.2.load(Relaxed) as f64);
}

async fn memory_wait(j: Job) {
    let (gate, all) = (Arc::new(Notify::new()), Wg::new(j.n));
    let arrived = Arc::new(AtomicUsize::new(0));
    let before = memory_now();
    for _ in 0..j.n {
        let (gate, arrived, all) = (gate.clone(), arrived.clone(), all.clone());
        spawn(async move {
            let woken = gate.notified();
            arrived.fetch_add(1, Relaxed);
            woken.await;
            all.done();
        });
    }
    while arrived.load(Relaxed) < j.n {
        yield_now().await;
    }
    let after = memory_now();
    gate.notify_waiters();
    all.wait().await;
    j.value("", "bytes", (after - before) / j.n as f64);
}

async fn memory_sleep(j: Job) {
    let arrived = Arc::new(AtomicUsize::new(0));
    let before = memory_now();
    for _ in 0..j.n {
        let arrived = arrived.clone();
        spawn(async move {
            arrived.fetch_add(1, Relaxed);
            sleep(Duration::from_secs(3600)).await;
        });
    }
    while arrived.load(Relaxed) < j.n {
        yield_now().await;
    }
    let after = memory_now();
    j.value("", "bytes", (after - before) / j.n as f64);
}

type Work = fn(Job) -> Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! rows {
    ($($name:literal $procs:literal $f:ident,)*) => {
        &[$(($name, $procs, |j| Box::pin($f(j))),)*]
    };
}

const ROWS: &[(&str, usize, Work)] = rows![
    "yield/2" 1 yields, "yield/2" 2 yields,
    "yield/1000" 1 yields, "yield/1000" 2 yields,
    "yield/100000" 1 yields, "yield/100000" 2 yields,
    "spawn/1" 1 spawns, "spawn/1" 2 spawns,
    "spawn/1000" 1 spawns, "spawn/1000" 2 spawns,
    "spawn/100000" 1 spawns, "spawn/100000" 2 spawns,
    "join/1" 1 join, "join/1" 2 join,
    "fib" 1 fib, "fib" 2 fib,
    "ping/chan" 1 ping, "ping/chan" 2 ping,
    "chan/1x1" 1 pass_on, "chan/1x1" 2 pass_on,
    "chan/8x8" 1 pass_on, "chan/8x8" 2 pass_on,
    "sieve/1500" 1 sieve, "sieve/1500" 2 sieve,
    "sieve/2000" 1 sieve, "sieve/2000" 2 sieve,
    "mutex/alone" 1 mutex_alone,
    "mutex/8" 1 mutex, "mutex/8" 2 mutex,
    "rwmutex/8 readers" 1 readers, "rwmutex/8 readers" 2 readers,
    "timer/create" 1 timer_create, "timer/reset" 1 timer_reset,
    "sleep/100us" 1 sleep_alone, "sleep/100us" 2 sleep_alone,
    "sleepers/100000" 2 sleepers,
    "pool/green" 1 tasks, "pool/green" 2 tasks,
    "memory/wait/100000" 1 memory_wait, "memory/wait/1000000" 1 memory_wait,
    "memory/sleep/100000" 1 memory_sleep, "memory/sleep/1000000" 1 memory_sleep,
];

fn main() {
    let names: Vec<_> = ROWS.iter().map(|r| (r.0, r.1)).collect();
    let Some(j) = job(&names) else { return };
    let work = ROWS.iter().find(|r| r.0 == j.name && r.1 == j.procs).unwrap().2;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let rt = builder.worker_threads(j.procs).enable_time().build().unwrap();
    if rt.block_on(rt.spawn(work(j))).is_err() {
        std::process::exit(1);
    }
    std::process::exit(0);
}
