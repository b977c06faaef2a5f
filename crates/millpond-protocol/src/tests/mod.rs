//! Tests of the codec as a whole: every frame there and back, hostile bytes, the vectors and the document.

mod document;
mod draw;
mod frames;
mod hostile;
mod vectors;

/// What `record!` gives a struct in tests: its fields in the order of their bytes.
pub(crate) trait Record {
    const FIELDS: &'static [&'static str];
}
