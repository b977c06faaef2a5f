//! Runs the steps of `cargo xtask test`, says how long each took, and says at the end what failed.

use std::time::{Duration, Instant};

use crate::Outcome;

/// The steps so far.
#[derive(Default)]
pub struct Steps {
    done: Vec<Step>,
}

struct Step {
    name: &'static str,
    took: Duration,
    failure: Option<String>,
}

impl Steps {
    /// Runs a step. A failure is shown now and again in the summary.
    pub fn run<T>(&mut self, name: &'static str, work: impl FnOnce() -> Result<T, String>) -> Option<T> {
        println!("\n==> {name}");
        let begun = Instant::now();
        let result = work();
        let took = begun.elapsed();
        let verdict = if result.is_ok() { "done" } else { "FAILED" };
        let (value, failure) = match result {
            Ok(value) => (Some(value), None),
            Err(what) => (None, Some(what)),
        };
        if let Some(what) = &failure {
            println!("{what}");
        }
        println!("<== {name}: {verdict} in {:.1} s", took.as_secs_f64());
        self.done.push(Step { name, took, failure });
        value
    }

    /// Whether the step of this name was run and failed.
    pub fn failed(&self, name: &str) -> bool {
        self.done.iter().any(|step| step.name == name && step.failure.is_some())
    }

    /// Prints the table of steps and what was skipped; fails if a step did.
    pub fn summary(&self, skipped: &[String]) -> Outcome {
        println!("\nstep        result    seconds");
        for step in &self.done {
            let verdict = if step.failure.is_some() { "FAILED" } else { "done" };
            println!("{:<11} {verdict:<8} {:>8.1}", step.name, step.took.as_secs_f64());
        }
        skipped.iter().for_each(|line| println!("{line}"));
        let failures: Vec<String> = self.done.iter().filter_map(Step::report).collect();
        if failures.is_empty() {
            println!("\nAll of {} steps passed.", self.done.len());
            return Ok(());
        }
        Err(format!("\n{} of {} steps failed:\n{}", failures.len(), self.done.len(), failures.join("\n")))
    }
}

impl Step {
    fn report(&self) -> Option<String> {
        let what = self.failure.as_ref()?;
        Some(format!("* {}: {}", self.name, what.trim_start()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_fails_the_whole_and_is_named() {
        let mut steps = Steps::default();
        assert_eq!(steps.run("good", || Ok(7)), Some(7));
        assert!(steps.summary(&[]).is_ok());
        assert_eq!(steps.run("bad", || Err::<(), _>("the reason".to_owned())), None);
        assert_eq!(steps.run("good again", || Ok(())), Some(()));
        assert!(steps.failed("bad") && !steps.failed("good"));
        let said = steps.summary(&[]).unwrap_err();
        assert!(said.contains("1 of 3") && said.contains("bad: the reason"), "{said}");
    }
}
