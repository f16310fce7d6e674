//! Writes service classes and services.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use muster_config::{
    service::{self, ServiceFile},
    serviceclass,
};
use muster_workflow::service::{ServiceClass, ServiceRecord};

use super::{CLASSES, ClassFile, ConfigStore, SERVICES, WriteError, write};

impl ConfigStore {
    /// Writes a new class.
    pub(crate) async fn create_class(&self, class: &ServiceClass) -> Result<(), WriteError> {
        let folder = self.root.join(CLASSES);
        let path = folder.join(format!("{}.yaml", class.name));
        let text = serviceclass::text(class, None);
        self.exclusively(move || write::create(&folder, &path, &text)).await
    }

    /// Rewrites a class, if its file is unchanged.
    pub(crate) async fn replace_class(
        &self,
        file: &ClassFile,
        class: &ServiceClass,
    ) -> Result<(), WriteError> {
        let (ClassFile { path, class: before }, class) = (file.clone(), class.clone());
        let is_meant = move |now: &str| {
            serviceclass::parse(now, &before.name).is_ok_and(|now| now.value == *before)
        };
        self.exclusively(move || {
            let old = std::fs::read_to_string(&path).ok();
            write::replace(&path, &serviceclass::text(&class, old.as_deref()), is_meant)
        })
        .await
    }

    /// Writes a new service.
    pub(crate) async fn create_service(&self, file: &ServiceFile) -> Result<(), WriteError> {
        let folder = self.root.join(SERVICES);
        let path = folder.join(format!("{}.yaml", file.service.name));
        let text = service::text(file);
        self.exclusively(move || write::create(&folder, &path, &text)).await
    }

    /// Writes the state of a service into its file.
    pub(crate) async fn write_record(
        &self,
        path: &Path,
        record: &ServiceRecord,
    ) -> Result<(), WriteError> {
        let (path, record): (PathBuf, Arc<ServiceRecord>) =
            (path.to_owned(), Arc::new(record.clone()));
        self.exclusively(move || {
            write::changed(&path, |before| service::with_record(before, &record))
        })
        .await
    }
}
