//! The rules that no compiler holds, as checks over the committed files. Each check is a function from texts to
//! complaints, shown by its own tests to be able to fail; this module runs them all and prints every complaint.

mod confined;
mod crates;
mod layers;
mod lengths;
mod links;
mod mended;
mod modules;
mod named;
mod words;

use crate::workspace::Workspace;
use crate::{Outcome, documents};

/// Runs all checks.
pub fn check(workspace: &Workspace) -> Outcome {
    let texts = workspace.texts()?;
    println!("{} committed text files", texts.len());
    println!("longest: {}", lengths::longest(&texts));
    let complaints: Vec<String> = [
        layers::check(&workspace.crates, &texts),
        crates::check(&workspace.crates, &texts),
        words::check(&texts),
        confined::check(&texts),
        modules::check(&texts),
        lengths::check(&texts),
        links::check(&texts),
        named::check(&texts),
        mended::check(&texts, &workspace.paths()?),
        documents::check_chores(&texts),
    ]
    .concat();
    if complaints.is_empty() {
        return Ok(());
    }
    Err(format!("{} complaints:\n  {}", complaints.len(), complaints.join("\n  ")))
}
