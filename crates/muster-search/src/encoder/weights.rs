//! Named tensors of a file in the `safetensors` format.

use std::{borrow::Cow, collections::BTreeMap, fs, io, path::Path, path::PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::encoder::matrix::Matrix;

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

/// The bytes of a file of a model, in memory or part of the program.
pub(crate) struct ModelFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Cow<'static, [u8]>,
}

impl ModelFile {
    pub(crate) fn read(path: PathBuf) -> Result<Self, ModelLoadError> {
        match fs::read(&path) {
            Ok(bytes) => Ok(Self { path, bytes: Cow::Owned(bytes) }),
            Err(source) => Err(ModelLoadError::Unreadable { path, source }),
        }
    }

    pub(crate) fn built_in(name: &str, bytes: &'static [u8]) -> Self {
        Self { path: Path::new("built-in").join(name), bytes: Cow::Borrowed(bytes) }
    }

    pub(crate) fn malformed(&self, reason: impl Into<String>) -> ModelLoadError {
        ModelLoadError::Malformed { path: self.path.clone(), reason: reason.into() }
    }
}

/// The tensors of a file.
pub(crate) struct Weights {
    file: ModelFile,
    tensors: BTreeMap<String, Tensor>,
    /// Where the data of the tensors begins.
    start: usize,
}

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

impl Weights {
    pub(crate) fn new(file: ModelFile) -> Result<Self, ModelLoadError> {
        let size = file.bytes.first_chunk::<8>().map(|size| u64::from_le_bytes(*size));
        let size = size.and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX);
        let start = size.checked_add(8).filter(|end| *end <= file.bytes.len());
        let start = start.ok_or_else(|| file.malformed("it is too short for its header"))?;
        let header = file.bytes.get(8..start).unwrap_or_default();
        let header: BTreeMap<String, Box<RawValue>> =
            serde_json::from_slice(header).map_err(|_| file.malformed("its header is not JSON"))?;
        let tensors = header
            .into_iter()
            .filter_map(|(name, raw)| Some((name, serde_json::from_str(raw.get()).ok()?)))
            .collect();
        Ok(Self { file, tensors, start })
    }

    /// A vector of this length.
    pub(crate) fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, ModelLoadError> {
        let read = || {
            let tensor = self.tensors.get(name)?;
            (tensor.shape == [length] && tensor.dtype == "F32").then(|| self.floats(tensor))?
        };
        read().filter(|values| values.len() == length).ok_or_else(|| self.missing(name))
    }

    /// The first row of a matrix of floating-point numbers with this number of columns.
    pub(crate) fn first_row(&self, name: &str, columns: usize) -> Result<Vec<f32>, ModelLoadError> {
        let read = || {
            let tensor = self.tensors.get(name).filter(|tensor| tensor.dtype == "F32")?;
            Some(self.floats(tensor)?.get(..columns)?.to_vec())
        };
        read().ok_or_else(|| self.missing(name))
    }

    /// A matrix with this number of columns. One of floating-point numbers is quantised.
    pub(crate) fn matrix(&self, name: &str, columns: usize) -> Result<Matrix, ModelLoadError> {
        let read = || {
            let tensor = self.tensors.get(name)?;
            let &[rows, found] = tensor.shape.as_slice() else { return None };
            if found != columns {
                return None;
            }
            match tensor.dtype.as_str() {
                "F32" => Matrix::quantised(&self.floats(tensor)?, columns),
                "I8" => {
                    let scales = self.vector(&format!("{name}.scale"), rows).ok()?;
                    Matrix::new(self.bytes(tensor)?, columns, scales)
                }
                _ => None,
            }
        };
        read().ok_or_else(|| self.missing(name))
    }

    /// The error of a tensor that is missing or has another shape.
    pub(crate) fn missing(&self, name: &str) -> ModelLoadError {
        self.file.malformed(format!("`{name}` is missing or has an unsupported type or shape"))
    }

    /// The bytes of a tensor, copied only if the file is in memory.
    fn bytes(&self, tensor: &Tensor) -> Option<Cow<'static, [u8]>> {
        let (start, end) = tensor.data_offsets;
        let range = self.start.checked_add(start)?..self.start.checked_add(end)?;
        match &self.file.bytes {
            Cow::Borrowed(bytes) => bytes.get(range).map(Cow::Borrowed),
            Cow::Owned(bytes) => Some(Cow::Owned(bytes.get(range)?.to_vec())),
        }
    }

    fn floats(&self, tensor: &Tensor) -> Option<Vec<f32>> {
        let (start, end) = tensor.data_offsets;
        let range = self.start.checked_add(start)?..self.start.checked_add(end)?;
        let numbers = self.file.bytes.get(range)?.chunks_exact(4);
        numbers.map(|four| Some(f32::from_le_bytes(*four.first_chunk()?))).collect()
    }
}
