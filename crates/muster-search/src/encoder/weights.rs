//! Named tensors of a file in the `safetensors` format.

use std::{collections::BTreeMap, fs, io, path::Path, path::PathBuf};

use ndarray::{Array1, Array2};
use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

/// Why a model cannot be loaded.
#[derive(Debug, Error)]
pub enum ModelLoadError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is malformed.
    #[error("{}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// The tensors of a file.
pub(crate) struct Weights {
    path: PathBuf,
    tensors: BTreeMap<String, Tensor>,
    data: Vec<u8>,
}

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

impl Weights {
    pub(crate) fn read(path: &Path) -> Result<Self, ModelLoadError> {
        let mut data = fs::read(path)
            .map_err(|source| ModelLoadError::Unreadable { path: path.to_owned(), source })?;
        let broken = |reason: &str| ModelLoadError::Malformed {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        let size = data.first_chunk::<8>().map(|size| u64::from_le_bytes(*size));
        let size = size.and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX);
        let end = size.checked_add(8).filter(|end| *end <= data.len());
        let end = end.ok_or_else(|| broken("it is too short for its header"))?;
        let header = data.get(8..end).unwrap_or_default();
        let header: BTreeMap<String, Box<RawValue>> =
            serde_json::from_slice(header).map_err(|_| broken("its header is not JSON"))?;
        let tensors = header
            .into_iter()
            .filter_map(|(name, raw)| Some((name, serde_json::from_str(raw.get()).ok()?)))
            .collect();
        data.drain(..end);
        Ok(Self { path: path.to_owned(), tensors, data })
    }

    fn missing(&self, name: &str) -> ModelLoadError {
        let reason = format!("`{name}` is missing, or not as it should be");
        ModelLoadError::Malformed { path: self.path.clone(), reason }
    }

    fn values(&self, name: &str) -> Option<(&[usize], Vec<f32>)> {
        let tensor = self.tensors.get(name).filter(|tensor| tensor.dtype == "F32")?;
        let (start, end) = tensor.data_offsets;
        let bytes = self.data.get(start..end)?;
        let values = bytes.chunks_exact(4).filter_map(|four| four.first_chunk::<4>());
        Some((&tensor.shape, values.map(|four| f32::from_le_bytes(*four)).collect()))
    }

    /// A vector of this length.
    pub(crate) fn vector(&self, name: &str, length: usize) -> Result<Array1<f32>, ModelLoadError> {
        let found = self.values(name).filter(|(shape, _)| *shape == [length]);
        found.map(|(_, values)| Array1::from(values)).ok_or_else(|| self.missing(name))
    }

    /// A matrix with this number of columns.
    pub(crate) fn table(&self, name: &str, columns: usize) -> Result<Array2<f32>, ModelLoadError> {
        let read = || {
            let (shape, values) = self.values(name)?;
            let &[rows, found] = shape else { return None };
            let table = Array2::from_shape_vec((rows, found), values).ok()?;
            (found == columns).then_some(table)
        };
        read().ok_or_else(|| self.missing(name))
    }
}
