//! The checks of the setup that the console shows: those of `muster doctor`, repeated every few seconds.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use muster_client::doctor::{self, Finding, Verdict};
use muster_console::{SetupChecks, SetupFinding};
use muster_core::{backend::BoxFuture, lock::Lock};

use crate::bundled;

/// How long findings are shown before the files are examined again. Pages refresh themselves more often.
const MAX_AGE: Duration = Duration::from_secs(10);

/// The checks of a configuration directory, with their last findings.
#[derive(Debug)]
pub(super) struct DirectoryChecks {
    root: PathBuf,
    last: Lock<Option<Examined>>,
}

/// Findings, and the time of the checks.
type Examined = (Instant, Arc<[SetupFinding]>);

impl DirectoryChecks {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), last: Lock::default() }
    }

    fn recent(&self) -> Option<Arc<[SetupFinding]>> {
        let last = self.last.lock();
        let (at, findings) = last.as_ref()?;
        (at.elapsed() < MAX_AGE).then(|| Arc::clone(findings))
    }
}

impl SetupChecks for DirectoryChecks {
    fn findings(&self) -> BoxFuture<'_, Arc<[SetupFinding]>> {
        Box::pin(async move {
            if let Some(recent) = self.recent() {
                return recent;
            }
            let root = self.root.clone();
            let examined = tokio::task::spawn_blocking(move || examine(&root)).await;
            let findings: Arc<[SetupFinding]> = examined.unwrap_or_default().into();
            *self.last.lock() = Some((Instant::now(), Arc::clone(&findings)));
            findings
        })
    }
}

fn examine(root: &Path) -> Vec<SetupFinding> {
    let found = doctor::examine_setup(root, &bundled::clis());
    let problems = found.into_iter().filter(|finding| finding.verdict != Verdict::Good);
    let shown = |Finding { verdict, subject, message, fix, .. }: Finding| SetupFinding {
        is_bad: verdict == Verdict::Bad,
        subject: match Path::new(&subject).strip_prefix(root) {
            Ok(inside) => inside.display().to_string(),
            Err(_) => subject,
        },
        message,
        fix: fix.unwrap_or_default(),
    };
    problems.map(shown).collect()
}
