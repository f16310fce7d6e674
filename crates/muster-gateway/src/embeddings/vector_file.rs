//! The file that caches vectors.
//!
//! A file is valid for one model: it begins with that model's vector of a fixed text, a fingerprint. The
//! intact beginning of a truncated file is used.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, BufWriter, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
    sync::Arc,
};

/// The magic number and the version of the format.
const MAGIC: &[u8] = b"muster vectors 1\n";
/// A longer text means that the file is not ours.
const MAX_TEXT: usize = 1 << 16;

/// Vectors by text.
pub(super) type Vectors = BTreeMap<Arc<str>, Arc<[f32]>>;

/// A text and its vector.
type Entry = (Arc<str>, Arc<[f32]>);

/// Reads at most `most` vectors of the model with this fingerprint.
pub(super) fn read(path: &Path, fingerprint: &[f32], most: usize) -> Vectors {
    let Ok(bytes) = fs::read(path) else { return Vectors::new() };
    let mut known = Vectors::new();
    let mut rest = Rest(&bytes);
    if rest.take(MAGIC.len()) != Some(MAGIC)
        || rest.vector(fingerprint.len()).as_deref() != Some(fingerprint)
    {
        return known;
    }
    while known.len() < most
        && let Some((text, vector)) = rest.entry(fingerprint.len())
    {
        known.insert(text, vector);
    }
    known
}

/// Replaces the file atomically.
pub(super) fn write(path: &Path, fingerprint: &[f32], known: &Vectors) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let unfinished = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = BufWriter::new(options.open(&unfinished)?);
    file.write_all(MAGIC)?;
    write_vector(&mut file, fingerprint)?;
    for (text, vector) in known {
        let Ok(length) = u32::try_from(text.len()) else { continue };
        file.write_all(&length.to_le_bytes())?;
        file.write_all(text.as_bytes())?;
        write_vector(&mut file, vector)?;
    }
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(&unfinished, path)
}

fn write_vector(file: &mut impl io::Write, vector: &[f32]) -> io::Result<()> {
    vector.iter().try_for_each(|number| file.write_all(&number.to_le_bytes()))
}

/// The bytes that are not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn vector(&mut self, size: usize) -> Option<Vec<f32>> {
        let bytes = self.take(size.checked_mul(size_of::<f32>())?)?;
        let number = |bytes: &[u8]| Some(f32::from_le_bytes(bytes.try_into().ok()?));
        bytes.chunks_exact(size_of::<f32>()).map(number).collect()
    }

    fn entry(&mut self, size: usize) -> Option<Entry> {
        let length = u32::from_le_bytes(self.take(size_of::<u32>())?.try_into().ok()?) as usize;
        let text = self.take(length).filter(|text| text.len() <= MAX_TEXT)?;
        Some((Arc::from(str::from_utf8(text).ok()?), self.vector(size)?.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use super::{Vectors, read, write};

    const FINGERPRINT_TEXT: [f32; 2] = [0.6, 0.8];

    fn known(texts: &[&str]) -> Vectors {
        let vector = |at: usize| Arc::from([at as f32, -0.5]);
        texts.iter().enumerate().map(|(at, text)| (Arc::from(*text), vector(at))).collect()
    }

    #[test]
    fn what_is_kept_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/vectors");
        assert_eq!(read(&path, &FINGERPRINT_TEXT, 9), Vectors::new());
        let all = known(&["a", "", "größer"]);
        write(&path, &FINGERPRINT_TEXT, &all).unwrap();
        assert_eq!(read(&path, &FINGERPRINT_TEXT, 9), all);
        assert_eq!(read(&path, &FINGERPRINT_TEXT, 2).len(), 2);
        write(&path, &FINGERPRINT_TEXT, &known(&["b"])).unwrap();
        assert_eq!(read(&path, &FINGERPRINT_TEXT, 9), known(&["b"]));
    }

    #[test]
    fn another_model_finds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vectors");
        write(&path, &FINGERPRINT_TEXT, &known(&["a"])).unwrap();
        assert_eq!(read(&path, &[0.8, 0.6], 9), Vectors::new());
        assert_eq!(read(&path, &[0.6, 0.8, 0.0], 9), Vectors::new());
    }

    #[test]
    fn a_file_that_is_not_whole_counts_as_far_as_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vectors");
        write(&path, &FINGERPRINT_TEXT, &known(&["a", "b"])).unwrap();
        let whole = fs::read(&path).unwrap();
        let mut counts = Vec::new();
        for end in 0..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            counts.push(read(&path, &FINGERPRINT_TEXT, 9).len());
        }
        assert!(counts.is_sorted());
        assert_eq!((counts.first(), counts.last()), (Some(&0), Some(&1)));
        fs::write(&path, [&whole[..], &[255; 64]].concat()).unwrap();
        assert_eq!(read(&path, &FINGERPRINT_TEXT, 9).len(), 2);
    }
}
