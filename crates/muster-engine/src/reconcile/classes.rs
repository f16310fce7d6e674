//! Service classes and services: edits by tools, and changes of files.

use std::sync::Arc;

use indexmap::IndexMap;
use muster_config::service::ServiceFile;
use muster_workflow::service::{
    ServiceClass,
    class::{ClassArg, InvalidClass, ServiceConfig},
};
use serde::Deserialize;
use thiserror::Error;

use super::{EditError, Reconciler, files::Origin};
use crate::{events::Reason, store::WriteError};

/// An edit of a service class.
#[derive(Debug)]
pub(crate) enum ClassEdit {
    Create(ClassDraft),
    Update(ClassDraft),
    Delete(String),
}

/// An edit of a service's file.
#[derive(Debug)]
pub(crate) enum ServiceEdit {
    Create(Box<ServiceFile>),
    Delete(String),
}

/// The arguments that create or update a class.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClassDraft {
    pub(crate) name: String,
    description: String,
    args: Option<IndexMap<String, ClassArg>>,
    service_config: ServiceConfig,
}

/// Why a class was not written.
#[derive(Debug, Error)]
pub(crate) enum ClassError {
    #[error(transparent)]
    Invalid(#[from] InvalidClass),
    #[error("ServiceClass '{0}' already exists")]
    Exists(String),
    #[error("service class {0} not found")]
    Unknown(String),
}

impl ClassDraft {
    /// A new class.
    pub(crate) fn create(self, namespace: &str) -> Result<ServiceClass, InvalidClass> {
        let mut class = ServiceClass {
            name: self.name.clone(),
            namespace: namespace.to_owned(),
            spec: muster_workflow::service::class::ClassSpec::default(),
        };
        self.apply(&mut class);
        class.check()?;
        Ok(class)
    }

    /// The class with the given fields replaced.
    fn update(self, class: &ServiceClass) -> Result<ServiceClass, InvalidClass> {
        let mut class = class.clone();
        self.apply(&mut class);
        class.check()?;
        Ok(class)
    }

    fn apply(self, class: &mut ServiceClass) {
        if !self.description.is_empty() {
            class.spec.description = self.description;
        }
        if let Some(args) = self.args {
            class.spec.args = args;
        }
        if self.service_config != ServiceConfig::default() {
            class.spec.service_config = self.service_config;
        }
    }
}

impl Reconciler {
    pub(super) async fn write_class(&self, edit: &ClassEdit) -> Result<(), EditError> {
        let store = &self.deps.store;
        let unknown = |name: &String| ClassError::Unknown(name.clone());
        match edit {
            ClassEdit::Create(draft) => {
                let class = draft.clone().create(self.files.settings.namespace());
                let class = class.map_err(ClassError::Invalid)?;
                if self.files.classes.contains_key(&class.name) {
                    return Err(ClassError::Exists(class.name).into());
                }
                match store.create_class(&class).await {
                    Err(WriteError::Exists(_)) => Err(ClassError::Exists(class.name).into()),
                    written => Ok(written?),
                }
            }
            ClassEdit::Update(draft) => {
                let file = self.files.classes.get(&draft.name);
                let file = file.ok_or_else(|| unknown(&draft.name))?;
                let class = draft.clone().update(&file.class).map_err(ClassError::Invalid)?;
                match store.replace_class(file, &class).await {
                    Err(WriteError::Gone(_)) => Err(unknown(&draft.name).into()),
                    written => Ok(written?),
                }
            }
            ClassEdit::Delete(name) => {
                let file = self.files.classes.get(name).ok_or_else(|| unknown(name))?;
                match store.delete(&file.path).await {
                    Err(WriteError::Gone(_)) => Err(unknown(name).into()),
                    written => Ok(written?),
                }
            }
        }
    }

    pub(super) async fn write_service(&self, edit: &ServiceEdit) -> Result<(), EditError> {
        match edit {
            ServiceEdit::Create(file) => Ok(self.deps.store.create_service(file).await?),
            ServiceEdit::Delete(name) => match self.files.services.get(name) {
                Some((path, _)) => match self.deps.store.delete_service(name, path).await {
                    Err(WriteError::Gone(_)) => Ok(()),
                    written => Ok(written?),
                },
                None => Ok(()),
            },
        }
    }

    /// Publishes the classes, and records which were added, changed and removed.
    pub(super) fn take_classes(&mut self, origin: Origin) {
        if *self.classes == self.files.classes {
            return;
        }
        let before = std::mem::replace(&mut self.classes, Arc::new(self.files.classes.clone()));
        if origin == Origin::Start {
            return;
        }
        let tell = |reason: Reason, class: &ServiceClass| {
            self.deps.journal.tell(reason, &class.name, &class.namespace, "");
        };
        for (name, file) in &*self.classes {
            match before.get(name) {
                None => tell(Reason::ServiceClassCreated, &file.class),
                Some(known) if known.class != file.class => {
                    tell(Reason::ServiceClassUpdated, &file.class);
                }
                Some(_) => (),
            }
        }
        for file in before.iter().filter(|(name, _)| !self.classes.contains_key(*name)) {
            tell(Reason::ServiceClassDeleted, &file.1.class);
        }
    }
}
