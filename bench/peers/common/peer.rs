// SPDX-License-Identifier: MIT
//
// Shared code of the peers that are written in Rust, as common/peer.h for those in C.

use std::time::Duration;

#[derive(Clone, Copy)]
pub struct Job {
    pub name: &'static str,
    pub procs: usize,
    pub n: usize,
    pub count: usize,
}

impl Job {
    pub fn value(&self, what: &str, unit: &str, v: f64) {
        let colon = if what.is_empty() { "" } else { ":" };
        println!(
            "{{\"name\": \"{}{}{}\", \"procs\": {}, \"count\": {}, \"{}\": {:.4}}}",
            self.name, colon, what, self.procs, self.count, unit, v
        );
    }

    pub fn took(&self, d: Duration, ops: usize) {
        self.value("", "ns", d.as_nanos() as f64 / ops as f64);
    }

    /// For what takes long here.
    #[allow(dead_code)]
    pub fn at_most(&mut self, count: usize) {
        self.count = self.count.min(count);
    }

    pub fn lateness(&self, late: &mut [i64]) {
        late.sort_unstable();
        assert!(late[0] >= 0, "one woke {} ns too early", -late[0]);
        self.value("p50", "ns", late[late.len() / 2] as f64);
        self.value("p99", "ns", late[late.len() * 99 / 100] as f64);
    }
}

/// Parses the arguments; prints the names of the rows if they ask for these.
pub fn job(rows: &[(&'static str, usize)]) -> Option<Job> {
    let a: Vec<String> = std::env::args().collect();
    if a.len() == 2 && a[1] == "--rows" {
        for (name, procs) in rows {
            println!("{name}\t{procs}");
        }
        return None;
    }
    assert!(a.len() == 5, "usage: {} ROW PROCS N COUNT, or --rows", a[0]);
    let number = |i: usize| a[i].parse::<usize>().unwrap();
    let row = rows.iter().find(|r| r.0 == a[1] && r.1 == number(2));
    let row = row.unwrap_or_else(|| panic!("no row {} with {} Ps", a[1], a[2]));
    Some(Job { name: row.0, procs: row.1, n: number(3), count: number(4) })
}

fn status(whats: &[&str]) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut sum = 0;
    for line in text.lines() {
        if whats.iter().any(|w| line.starts_with(&format!("{w}:"))) {
            sum += line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024;
        }
    }
    sum as f64
}

pub fn memory_now() -> f64 {
    status(&["VmRSS", "VmPTE"])
}

#[allow(dead_code)]
pub fn memory_peak() -> f64 {
    status(&["VmHWM", "VmPTE"])
}

/// The largest n whose tree of calls has at most `most` spawns, its result, and its spawns.
pub fn fib_tree(most: usize) -> (u32, u64, usize) {
    let (mut a, mut b, mut spawns, mut before, mut n) = (0, 1, 0, 0, 1);
    loop {
        let next = 1 + spawns + before;
        if next > most {
            return (n, b, spawns);
        }
        (before, spawns) = (spawns, next);
        (a, b) = (b, a + b);
        n += 1;
    }
}

/// How long the sleepers sleep: the same in all peers.
pub fn sleeps(n: usize) -> Vec<u64> {
    let mut x: u64 = 88172645463325252;
    (0..n)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            1_000_000 + x % 999_000_000
        })
        .collect()
}

/// CPU time of the process in ms.
pub fn cpu_ms() -> f64 {
    // utime and stime, after the name in brackets, in ticks of 10 ms
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let f: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (f[11].parse::<f64>().unwrap() + f[12].parse::<f64>().unwrap()) * 10.0
}

/// The sum of what `n` producers of `each` elements send: i * 8 + me.
pub fn sum_of(n: usize, each: usize) -> u64 {
    (0..n).map(|me| (each * me + 8 * (each * (each - 1) / 2)) as u64).sum()
}
