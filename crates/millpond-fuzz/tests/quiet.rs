//! Every input of the kept corpora, and mutations of them, find nothing.
//!
//! The mutations are the same in each run. `FUZZ_MUTATIONS=100` makes a hundred times as many, and other ones behind the first.

use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use millpond_fuzz::corpus;
use millpond_fuzz::mutation::Mutator;
use millpond_fuzz::targets::{TARGETS, Target};

/// One after the other: memory is counted over the whole process.
#[test]
fn every_target_is_quiet() {
    what_a_target_finds_is_told();
    let panics = Arc::new(AtomicU32::new(0));
    let (counted, report) = (panics.clone(), panic::take_hook());
    // Of other threads too: a broker lives on when one of its sessions panics.
    panic::set_hook(Box::new(move |info| {
        counted.fetch_add(1, Ordering::SeqCst);
        report(info);
    }));
    println!("target      corpus mutations seconds");
    for target in TARGETS {
        let begun = Instant::now();
        let kept = corpus::read(target.name);
        for (file, input) in &kept {
            try_one(target, input, &panics, &|| file.display().to_string());
        }
        let inputs: Vec<Vec<u8>> = kept.into_iter().map(|(_, input)| input).collect();
        let mut mutator = Mutator::new(2026);
        let times: u32 = std::env::var("FUZZ_MUTATIONS").map_or(1, |times| times.parse().expect("a number"));
        for _ in 0..target.mutations * times {
            let input = mutator.input(&inputs);
            try_one(target, &input, &panics, &|| format!("{input:02x?}"));
        }
        let took = begun.elapsed().as_secs_f64();
        println!("{:<11} {:>6} {:>9} {took:>7.1}", target.name, inputs.len(), target.mutations * times);
    }
    millpond_fuzz::targets::stop();
}

fn try_one(target: &Target, input: &[u8], panics: &AtomicU32, name: &dyn Fn() -> String) {
    let done = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let is_quiet = done.is_ok() && panics.load(Ordering::SeqCst) == 0;
    assert!(is_quiet, "{} finds something with {}", target.name, name());
}

#[test]
fn each_target_has_a_wrapper_and_a_corpus() {
    let wrappers = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    let mut found: Vec<String> = std::fs::read_dir(wrappers)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    found.sort();
    let mut named: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    named.sort_unstable();
    assert_eq!(found, named);
    for name in named {
        assert!(!corpus::read(name).is_empty(), "{name} has no corpus");
    }
}

/// A target that finds something, so that it is seen that this would be told.
fn what_a_target_finds_is_told() {
    let loud = Target { name: "loud", run: |input| assert!(input.len() < 3, "found"), mutations: 0 };
    let told = catch_unwind(AssertUnwindSafe(|| try_one(&loud, b"abc", &AtomicU32::new(0), &|| "abc".to_owned())));
    let told = told.unwrap_err();
    assert_eq!(told.downcast_ref::<String>().unwrap(), "loud finds something with abc");
    try_one(&loud, b"ab", &AtomicU32::new(0), &String::new);
}
