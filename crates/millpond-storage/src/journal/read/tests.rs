//! Messages that are read while their segment is taken back and its file becomes another one.

use std::io;
use std::sync::Mutex;

use millpond_types::block;

use super::*;
use crate::disk::{Disk, DiskFile, Preallocate};
use crate::journal::live::ByGroup;
use crate::journal::segment::SEGMENT_HEADER;
use crate::journal::segments::Segment;
use crate::open::OpenOptions;
use crate::sync::lock;
use crate::twin::TwinDisk;

const BYTES: u64 = SEGMENT_HEADER + 1024;
/// Where the next segment begins.
const END: u64 = BYTES - SEGMENT_HEADER;

/// When something happens: before a read of the file, in its midst, right behind it, or once the reader has its answer.
const MOMENTS: usize = 4;

/// What the thread that takes segments back does, step by step, while another one reads.
struct Rival {
    shared: Arc<Shared>,
    file: Arc<dyn DiskFile>,
    /// Moments of its steps that are left, and which step is next.
    left: Mutex<(Vec<usize>, usize)>,
}

impl Rival {
    fn reach(&self, moment: usize) {
        loop {
            let mut left = lock(&self.left);
            let (moments, step) = &mut *left;
            if moments.first().is_none_or(|first| *first > moment) {
                return;
            }
            moments.remove(0);
            let step = std::mem::replace(step, *step + 1);
            drop(left);
            match step {
                0 => assert_eq!(self.shared.segments.take_dead(END).len(), 1),
                1 => self.file.write_at(SEGMENT_HEADER, &pair(b'n')).unwrap(),
                _ => self.shared.segments.add(segment(2 * END, self.file.clone())),
            }
        }
    }
}

/// The file, for the one who reads.
struct Interrupted(Arc<Rival>);

impl DiskFile for Interrupted {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let Interrupted(rival) = self;
        rival.reach(0);
        let (front, back) = buffer.split_at_mut(buffer.len() / 2);
        rival.file.read_at(offset, front)?;
        rival.reach(1);
        rival.file.read_at(offset + front.len() as u64, back)?;
        rival.reach(2);
        Ok(())
    }

    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        unreachable!("it is read")
    }

    fn sync(&self) -> io::Result<()> {
        unreachable!("it is read")
    }

    fn preallocate(&self, _: u64, _: Preallocate) -> io::Result<()> {
        unreachable!("it is read")
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        unreachable!("it is read")
    }

    fn length(&self) -> io::Result<u64> {
        self.0.file.length()
    }
}

fn segment(base: u64, file: Arc<dyn DiskFile>) -> Segment {
    Segment { base, end: u64::MAX, name: format!("{base}"), file, bytes: BYTES, live: ByGroup::default() }
}

fn message(letter: u8) -> Vec<u8> {
    let mut message = Vec::new();
    block::push(&mut message, b"", &[], &[letter; 40]).unwrap();
    message
}

/// Two messages, one behind the other.
fn pair(letter: u8) -> Vec<u8> {
    message(letter).repeat(2)
}

/// A reader, and whoever takes the segment back from it at these moments. The messages are at the begin of the segment.
fn rivals(moments: &[usize]) -> (Reader, Arc<Rival>) {
    let disk = Arc::new(TwinDisk::new(512));
    let file = disk.create("0").unwrap();
    file.preallocate(BYTES, Preallocate::Reserved).unwrap();
    file.write_at(SEGMENT_HEADER, &pair(b'o')).unwrap();
    let last = disk.create("last").unwrap();
    let shared = Arc::new(Shared::new(disk, 0, 1, &OpenOptions { tail_bytes: 0, ..OpenOptions::default() }));
    let rival = Arc::new(Rival { shared: shared.clone(), file, left: Mutex::new((moments.to_vec(), 0)) });
    shared.segments.add(segment(0, Arc::new(Interrupted(rival.clone()))));
    shared.segments.add(segment(END, last));
    (Reader::new(shared), rival)
}

#[test]
fn what_is_read_while_its_file_becomes_another_segment_is_what_was_written_or_gone() {
    let length = message(b'o').len() as u32;
    let extents = [0, 1].map(|nth| Extent { position: nth * u64::from(length), length });
    let (mut whole, mut gone) = (0, 0);
    for first in 0..MOMENTS {
        for second in first..MOMENTS {
            for third in second..MOMENTS {
                let moments = [first, second, third];
                let (reader, rival) = rivals(&moments);
                let mut results = vec![reader.read(extents[0])];
                rival.reach(MOMENTS);
                let (reader, rival) = rivals(&moments);
                results.extend(reader.read_all(&extents));
                rival.reach(MOMENTS);
                for result in results {
                    match result {
                        Ok(bytes) => {
                            assert_eq!(bytes, message(b'o'), "with steps at {moments:?}");
                            whole += u32::from(first == MOMENTS - 1);
                        }
                        Err(ReadError::Gone(_)) => gone += 1,
                        Err(error) => panic!("{error}, with steps at {moments:?}"),
                    }
                }
            }
        }
    }
    assert!(gone > 0 && whole == 3, "it is all there until the first step: {whole}, {gone}");
}
