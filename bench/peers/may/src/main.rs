// SPDX-License-Identifier: MIT
//
// Measures may on the rows that it can run.
//
// Its coroutines have stacks of 16 KiB, on PROCS threads.  Its channels have no bound except a
// rendezvous, so a send to "chan" never waits.

#[path = "../../common/peer.rs"]
mod peer;

use may::coroutine::{self, yield_now};
use may::go;
use may::sync::{mpmc, mpsc, Mutex, RwLock};
use peer::*;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Each coroutine yields equally often, and the first waits for all: a coroutine that yields
/// repeatedly keeps runnable coroutines from running.
fn yields(j: Job) {
    let rounds = j.count / j.n;
    let t0 = Instant::now();
    let handles: Vec<_> = (0..j.n)
        .map(|_| {
            go!(move || {
                for _ in 0..rounds {
                    yield_now();
                }
                rounds
            })
        })
        .collect();
    let total: usize = handles.into_iter().map(|h| h.join().unwrap()).sum();
    let d = t0.elapsed();
    assert_eq!(total, rounds * j.n);
    j.took(d, total);
}

fn spawns(mut j: Job) {
    j.at_most(100000);
    let ran = Arc::new(AtomicUsize::new(0));
    let rounds = j.count / j.n;
    let batch = || {
        let handles: Vec<_> = (0..j.n)
            .map(|_| {
                let ran = ran.clone();
                go!(move || ran.fetch_add(1, Relaxed))
            })
            .collect();
        for h in handles {
            h.join().unwrap();
        }
    };
    batch();
    let t0 = Instant::now();
    for _ in 0..rounds {
        batch();
    }
    let d = t0.elapsed();
    assert_eq!(ran.load(Relaxed), (1 + rounds) * j.n);
    j.took(d, rounds * j.n);
}

fn fib_of(n: u32) -> u64 {
    if n < 2 {
        return n as u64;
    }
    let left = go!(move || fib_of(n - 1));
    let b = fib_of(n - 2);
    left.join().unwrap() + b
}

fn fib(mut j: Job) {
    j.at_most(20000);
    let (n, want, spawns) = fib_tree(j.count);
    let t0 = Instant::now();
    let got = fib_of(n);
    let d = t0.elapsed();
    assert_eq!(got, want);
    j.took(d, spawns);
}

fn ping(mut j: Job) {
    j.at_most(200000);
    let (there, from) = mpsc::channel();
    let (to, back) = mpsc::channel();
    let other = go!(move || {
        while let Ok(v) = from.recv() {
            let _ = to.send(v + 1);
        }
    });
    let warm = (j.count / 8) as i64;
    let mut t0 = Instant::now();
    for i in -warm..j.count as i64 {
        if i == 0 {
            t0 = Instant::now();
        }
        there.send(i).unwrap();
        assert_eq!(back.recv(), Ok(i + 1));
    }
    let d = t0.elapsed();
    drop(there);
    other.join().unwrap();
    j.took(d, j.count);
}

fn pass_on(mut j: Job) {
    j.at_most(1000000);
    let each = j.count / j.n;
    let (send, receive) = mpmc::channel::<u64>();
    let mut handles = Vec::new();
    let t0 = Instant::now();
    for me in 0..j.n {
        let send = send.clone();
        go!(move || {
            for i in 0..each {
                send.send((i * 8 + me) as u64).unwrap();
            }
        });
        let receive = receive.clone();
        handles.push(go!(move || {
            let (mut n, mut sum) = (0, 0);
            while let Ok(v) = receive.recv() {
                n += 1;
                sum += v;
            }
            (n, sum)
        }));
    }
    drop(send);
    let (mut n, mut sum) = (0, 0);
    for h in handles {
        let r = h.join().unwrap();
        n += r.0;
        sum += r.1;
    }
    let d = t0.elapsed();
    assert_eq!((n, sum), (each * j.n, sum_of(j.n, each)));
    j.took(d, j.count);
}

fn mutex_alone(j: Job) {
    let m = Mutex::new(0);
    let t0 = Instant::now();
    for _ in 0..j.count {
        *m.lock().unwrap() += 1;
    }
    let d = t0.elapsed();
    assert_eq!(*m.lock().unwrap(), j.count);
    j.took(d, j.count);
}

fn mutex(mut j: Job) {
    j.at_most(1000000);
    let (m, each) = (Arc::new(Mutex::new(0)), j.count / j.n);
    let t0 = Instant::now();
    let handles: Vec<_> = (0..j.n)
        .map(|_| {
            let m = m.clone();
            go!(move || {
                for _ in 0..each {
                    *m.lock().unwrap() += 1;
                }
            })
        })
        .collect();
    for h in handles {
        h.join().unwrap();
    }
    let d = t0.elapsed();
    assert_eq!(*m.lock().unwrap(), each * j.n);
    j.took(d, j.count);
}

fn readers(mut j: Job) {
    j.at_most(1000000);
    let (rw, each) = (Arc::new(RwLock::new(1)), j.count / j.n);
    let seen = Arc::new(AtomicU64::new(0));
    let t0 = Instant::now();
    let handles: Vec<_> = (0..j.n)
        .map(|_| {
            let (rw, seen) = (rw.clone(), seen.clone());
            go!(move || {
                let mut sum = 0;
                for _ in 0..each {
                    sum += *rw.read().unwrap();
                }
                seen.fetch_add(sum, Relaxed);
            })
        })
        .collect();
    for h in handles {
        h.join().unwrap();
    }
    let d = t0.elapsed();
    assert_eq!(seen.load(Relaxed) as usize, each * j.n);
    j.took(d, j.count);
}

fn sleep_alone(j: Job) {
    let mut late = Vec::new();
    for _ in 0..j.count {
        let t0 = Instant::now();
        coroutine::sleep(Duration::from_nanos(j.n as u64));
        late.push(t0.elapsed().as_nanos() as i64 - j.n as i64);
    }
    j.lateness(&mut late);
}

/// A sample of 20,000: a process may have no more mappings than these need.
fn memory(j: Job) {
    const SAMPLE: usize = 20000;
    let gate = Arc::new(Mutex::new(0));
    let arrived = Arc::new(AtomicUsize::new(0));
    let held = gate.lock().unwrap();
    let before = memory_now();
    let handles: Vec<_> = (0..SAMPLE)
        .map(|_| {
            let (gate, arrived) = (gate.clone(), arrived.clone());
            go!(move || {
                arrived.fetch_add(1, Relaxed);
                *gate.lock().unwrap() += 1;
            })
        })
        .collect();
    while arrived.load(Relaxed) < SAMPLE {
        coroutine::sleep(Duration::from_millis(1));
    }
    let after = memory_now();
    drop(held);
    for h in handles {
        h.join().unwrap();
    }
    assert_eq!(*gate.lock().unwrap(), SAMPLE);
    j.value("", "bytes", (after - before) / SAMPLE as f64);
}

type Row = (&'static str, usize, fn(Job));

const ROWS: &[Row] = &[
    ("yield/2", 1, yields),
    ("yield/2", 2, yields),
    ("yield/1000", 1, yields),
    ("yield/1000", 2, yields),
    ("spawn/1", 1, spawns),
    ("spawn/1", 2, spawns),
    ("spawn/1000", 1, spawns),
    ("spawn/1000", 2, spawns),
    ("join/1", 1, join),
    ("join/1", 2, join),
    ("fib", 1, fib),
    ("fib", 2, fib),
    ("ping/chan", 1, ping),
    ("ping/chan", 2, ping),
    ("chan/1x1", 1, pass_on),
    ("chan/1x1", 2, pass_on),
    ("chan/8x8", 1, pass_on),
    ("chan/8x8", 2, pass_on),
    ("mutex/alone", 1, mutex_alone),
    ("mutex/8", 1, mutex),
    ("mutex/8", 2, mutex),
    ("rwmutex/8 readers", 1, readers),
    ("rwmutex/8 readers", 2, readers),
    ("sleep/100us", 1, sleep_alone),
    ("sleep/100us", 2, sleep_alone),
    ("memory/wait/100000", 1, memory),
];

fn join(mut j: Job) {
    j.n = 1;
    spawns(j);
}

fn main() {
    let names: Vec<_> = ROWS.iter().map(|r| (r.0, r.1)).collect();
    let Some(j) = job(&names) else { return };
    let work = ROWS.iter().find(|r| r.0 == j.name && r.1 == j.procs).unwrap().2;
    may::config().set_workers(j.procs).set_stack_size(0x800);
    let ended = go!(move || work(j)).join().is_ok();
    std::process::exit(if ended { 0 } else { 1 });
}
