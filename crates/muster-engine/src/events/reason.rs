//! The reasons of events.

/// The kind of the resource that an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvolvedKind {
    /// An MCP server.
    McpServer,
    /// A workflow.
    Workflow,
    /// A service class.
    ServiceClass,
    /// A service.
    ServiceInstance,
}

impl InvolvedKind {
    /// Its name in files and filters.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::McpServer => "MCPServer",
            Self::Workflow => "Workflow",
            Self::ServiceClass => "ServiceClass",
            Self::ServiceInstance => "ServiceInstance",
        }
    }
}

/// The reason of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A server was added by a tool or a file.
    McpServerCreated,
    /// A server was changed by a tool or a file.
    McpServerUpdated,
    /// A server was deleted by a tool or a file.
    McpServerDeleted,
    /// A server could not be connected, or its definition could not be changed.
    McpServerFailed,
    /// A server is connecting.
    McpServerStarting,
    /// A server is up.
    McpServerStarted,
    /// A server was stopped.
    McpServerStopped,
    /// A server that was up is restarting.
    McpServerRestarting,
    /// The tools of a server are known.
    McpServerToolsDiscovered,
    /// The tools of a server are gone.
    McpServerToolsUnavailable,
    /// A server is tried again: it was lost, could not be connected, or is restarted.
    McpServerRecoveryStarted,
    /// A server reconnected.
    McpServerRecoverySucceeded,
    /// A server could not reconnect yet.
    McpServerRecoveryFailed,
    /// A server requires a login.
    McpServerAuthRequired,
    /// A workflow was added by a tool or a file.
    WorkflowCreated,
    /// A workflow was changed by a tool or a file.
    WorkflowUpdated,
    /// A workflow was deleted by a tool or a file.
    WorkflowDeleted,
    /// A definition sent by a tool is invalid.
    WorkflowValidationFailed,
    /// A definition sent by a tool is valid.
    WorkflowValidationSucceeded,
    /// A workflow can be called.
    WorkflowToolRegistered,
    /// The tools that clients can list changed with it.
    WorkflowCapabilitiesRefreshed,
    /// A workflow was called while its tools were missing.
    WorkflowUnavailable,
    /// An execution started.
    WorkflowExecutionStarted,
    /// An execution that ended has a record.
    WorkflowExecutionTracked,
    /// An execution completed.
    WorkflowExecutionCompleted,
    /// An execution failed.
    WorkflowExecutionFailed,
    /// A step started.
    WorkflowStepStarted,
    /// A step completed.
    WorkflowStepCompleted,
    /// A step failed.
    WorkflowStepFailed,
    /// A step was skipped: its condition did not hold.
    WorkflowStepSkipped,
    /// The condition of a step was evaluated.
    WorkflowStepConditionEvaluated,
    /// A service class was added by a tool or a file.
    ServiceClassCreated,
    /// A service class was changed by a tool or a file.
    ServiceClassUpdated,
    /// A service class was deleted by a tool or a file.
    ServiceClassDeleted,
    /// A definition is valid.
    ServiceClassValidated,
    /// A definition is invalid.
    ServiceClassValidationFailed,
    /// All tools of a class can be called.
    ServiceClassAvailable,
    /// Some tools of a class cannot be called.
    ServiceClassUnavailable,
    /// The tools of a class can be called for the first time.
    ServiceClassToolsDiscovered,
    /// Tools of a class are missing.
    ServiceClassToolsMissing,
    /// Missing tools of a class are back.
    ServiceClassToolsRestored,
    /// A service was created.
    ServiceInstanceCreated,
    /// A service is starting.
    ServiceInstanceStarting,
    /// A service is running.
    ServiceInstanceStarted,
    /// A service is stopping.
    ServiceInstanceStopping,
    /// A service is stopped.
    ServiceInstanceStopped,
    /// A service is restarting.
    ServiceInstanceRestarting,
    /// A service was restarted.
    ServiceInstanceRestarted,
    /// A service was deleted.
    ServiceInstanceDeleted,
    /// A service could not be started or stopped.
    ServiceInstanceFailed,
    /// A service is healthy.
    ServiceInstanceHealthy,
    /// A service failed too many checks in a row.
    ServiceInstanceUnhealthy,
    /// A check of a service failed.
    ServiceInstanceHealthCheckFailed,
    /// A check of a service succeeded after failures.
    ServiceInstanceHealthCheckRecovered,
    /// The state of a service changed.
    ServiceInstanceStateChanged,
    /// A tool of a service is called.
    ServiceInstanceToolExecutionStarted,
    /// A tool of a service succeeded.
    ServiceInstanceToolExecutionCompleted,
    /// A tool of a service failed.
    ServiceInstanceToolExecutionFailed,
    /// A caller's token was forwarded and accepted.
    McpServerTokenForwarded,
    /// A caller's token was forwarded and rejected.
    McpServerTokenForwardingFailed,
    /// A caller's token was exchanged.
    McpServerTokenExchanged,
    /// A caller's token could not be exchanged.
    McpServerTokenExchangeFailed,
}

impl Reason {
    /// The reasons of events that every gateway of one configuration records when definitions change.
    pub(super) const ALL_SHARED: &'static [Self] = &[
        Self::WorkflowCreated,
        Self::WorkflowUpdated,
        Self::WorkflowDeleted,
        Self::WorkflowValidationSucceeded,
        Self::WorkflowToolRegistered,
        Self::WorkflowCapabilitiesRefreshed,
        Self::ServiceClassCreated,
        Self::ServiceClassUpdated,
        Self::ServiceClassDeleted,
        Self::ServiceClassAvailable,
        Self::ServiceClassUnavailable,
    ];

    /// Its identifier.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::McpServerCreated => "MCPServerCreated",
            Self::McpServerUpdated => "MCPServerUpdated",
            Self::McpServerDeleted => "MCPServerDeleted",
            Self::McpServerFailed => "MCPServerFailed",
            Self::McpServerStarting => "MCPServerStarting",
            Self::McpServerStarted => "MCPServerStarted",
            Self::McpServerStopped => "MCPServerStopped",
            Self::McpServerRestarting => "MCPServerRestarting",
            Self::McpServerToolsDiscovered => "MCPServerToolsDiscovered",
            Self::McpServerToolsUnavailable => "MCPServerToolsUnavailable",
            Self::McpServerRecoveryStarted => "MCPServerRecoveryStarted",
            Self::McpServerRecoverySucceeded => "MCPServerRecoverySucceeded",
            Self::McpServerRecoveryFailed => "MCPServerRecoveryFailed",
            Self::McpServerAuthRequired => "MCPServerAuthRequired",
            Self::WorkflowCreated => "WorkflowCreated",
            Self::WorkflowUpdated => "WorkflowUpdated",
            Self::WorkflowDeleted => "WorkflowDeleted",
            Self::WorkflowValidationFailed => "WorkflowValidationFailed",
            Self::WorkflowValidationSucceeded => "WorkflowValidationSucceeded",
            Self::WorkflowToolRegistered => "WorkflowToolRegistered",
            Self::WorkflowCapabilitiesRefreshed => "WorkflowCapabilitiesRefreshed",
            Self::WorkflowUnavailable => "WorkflowUnavailable",
            Self::WorkflowExecutionStarted => "WorkflowExecutionStarted",
            Self::WorkflowExecutionTracked => "WorkflowExecutionTracked",
            Self::WorkflowExecutionCompleted => "WorkflowExecutionCompleted",
            Self::WorkflowExecutionFailed => "WorkflowExecutionFailed",
            Self::WorkflowStepStarted => "WorkflowStepStarted",
            Self::WorkflowStepCompleted => "WorkflowStepCompleted",
            Self::WorkflowStepFailed => "WorkflowStepFailed",
            Self::WorkflowStepSkipped => "WorkflowStepSkipped",
            Self::WorkflowStepConditionEvaluated => "WorkflowStepConditionEvaluated",
            Self::ServiceClassCreated => "ServiceClassCreated",
            Self::ServiceClassUpdated => "ServiceClassUpdated",
            Self::ServiceClassDeleted => "ServiceClassDeleted",
            Self::ServiceClassValidated => "ServiceClassValidated",
            Self::ServiceClassValidationFailed => "ServiceClassValidationFailed",
            Self::ServiceClassAvailable => "ServiceClassAvailable",
            Self::ServiceClassUnavailable => "ServiceClassUnavailable",
            Self::ServiceClassToolsDiscovered => "ServiceClassToolsDiscovered",
            Self::ServiceClassToolsMissing => "ServiceClassToolsMissing",
            Self::ServiceClassToolsRestored => "ServiceClassToolsRestored",
            Self::ServiceInstanceCreated => "ServiceInstanceCreated",
            Self::ServiceInstanceStarting => "ServiceInstanceStarting",
            Self::ServiceInstanceStarted => "ServiceInstanceStarted",
            Self::ServiceInstanceStopping => "ServiceInstanceStopping",
            Self::ServiceInstanceStopped => "ServiceInstanceStopped",
            Self::ServiceInstanceRestarting => "ServiceInstanceRestarting",
            Self::ServiceInstanceRestarted => "ServiceInstanceRestarted",
            Self::ServiceInstanceDeleted => "ServiceInstanceDeleted",
            Self::ServiceInstanceFailed => "ServiceInstanceFailed",
            Self::ServiceInstanceHealthy => "ServiceInstanceHealthy",
            Self::ServiceInstanceUnhealthy => "ServiceInstanceUnhealthy",
            Self::ServiceInstanceHealthCheckFailed => "ServiceInstanceHealthCheckFailed",
            Self::ServiceInstanceHealthCheckRecovered => "ServiceInstanceHealthCheckRecovered",
            Self::ServiceInstanceStateChanged => "ServiceInstanceStateChanged",
            Self::ServiceInstanceToolExecutionStarted => "ServiceInstanceToolExecutionStarted",
            Self::ServiceInstanceToolExecutionCompleted => "ServiceInstanceToolExecutionCompleted",
            Self::ServiceInstanceToolExecutionFailed => "ServiceInstanceToolExecutionFailed",
            Self::McpServerTokenForwarded => "MCPServerTokenForwarded",
            Self::McpServerTokenForwardingFailed => "MCPServerTokenForwardingFailed",
            Self::McpServerTokenExchanged => "MCPServerTokenExchanged",
            Self::McpServerTokenExchangeFailed => "MCPServerTokenExchangeFailed",
        }
    }

    /// The kind of resource it is about.
    pub fn kind(self) -> InvolvedKind {
        let about = |kind: &InvolvedKind| self.as_str().starts_with(kind.as_str());
        [InvolvedKind::Workflow, InvolvedKind::ServiceClass, InvolvedKind::ServiceInstance]
            .into_iter()
            .find(about)
            .unwrap_or(InvolvedKind::McpServer)
    }

    /// Whether it is a warning.
    pub const fn is_warning(self) -> bool {
        matches!(
            self,
            Self::McpServerFailed
                | Self::McpServerToolsUnavailable
                | Self::McpServerRecoveryFailed
                | Self::WorkflowExecutionFailed
                | Self::WorkflowValidationFailed
                | Self::WorkflowUnavailable
                | Self::WorkflowStepFailed
                | Self::ServiceClassValidationFailed
                | Self::ServiceClassUnavailable
                | Self::ServiceClassToolsMissing
                | Self::ServiceInstanceFailed
                | Self::ServiceInstanceUnhealthy
                | Self::ServiceInstanceHealthCheckFailed
                | Self::ServiceInstanceToolExecutionFailed
                | Self::McpServerTokenForwardingFailed
                | Self::McpServerTokenExchangeFailed
        )
    }

    /// Its message; `detail` is appended where there is one.
    pub(super) fn message(self, name: &str, detail: &str) -> String {
        let what = match self {
            Self::McpServerCreated => "was created",
            Self::McpServerUpdated => "was updated",
            Self::McpServerDeleted => "was deleted",
            Self::McpServerFailed => "failed",
            Self::McpServerStarting => "is starting",
            Self::McpServerStarted => "started",
            Self::McpServerStopped => "stopped",
            Self::McpServerRestarting => "is restarting",
            Self::McpServerToolsDiscovered => "offers",
            Self::McpServerToolsUnavailable => "no longer offers its tools",
            Self::McpServerRecoveryStarted => "is reconnecting",
            Self::McpServerRecoverySucceeded => "is back",
            Self::McpServerRecoveryFailed => "could not be reconnected",
            Self::McpServerAuthRequired => "requires a login",
            Self::WorkflowCreated => "was created with",
            Self::WorkflowUpdated => "was updated with",
            Self::WorkflowDeleted => "was deleted",
            Self::WorkflowValidationFailed => "is not valid",
            Self::WorkflowValidationSucceeded => "is valid",
            Self::WorkflowToolRegistered => "can be called",
            Self::WorkflowCapabilitiesRefreshed => "is listed among the tools",
            Self::WorkflowUnavailable => "cannot run",
            Self::WorkflowExecutionStarted => "started",
            Self::WorkflowExecutionTracked => "has a record",
            Self::WorkflowExecutionCompleted => "completed",
            Self::WorkflowExecutionFailed => "failed",
            Self::WorkflowStepStarted => "started",
            Self::WorkflowStepCompleted => "completed",
            Self::WorkflowStepFailed => "failed",
            Self::WorkflowStepSkipped => "skipped",
            Self::WorkflowStepConditionEvaluated => "had its condition evaluated",
            Self::ServiceClassCreated => "was created",
            Self::ServiceClassUpdated => "was updated",
            Self::ServiceClassDeleted => "was deleted",
            Self::ServiceClassValidated => "was checked and is valid",
            Self::ServiceClassValidationFailed => "is not valid",
            Self::ServiceClassAvailable => "is available",
            Self::ServiceClassUnavailable => "is not available",
            Self::ServiceClassToolsDiscovered => "has all of its tools",
            Self::ServiceClassToolsMissing => "lacks tools",
            Self::ServiceClassToolsRestored => "has its tools again",
            Self::ServiceInstanceCreated => "was created",
            Self::ServiceInstanceStarting => "is starting",
            Self::ServiceInstanceStarted => "started",
            Self::ServiceInstanceStopping => "is stopping",
            Self::ServiceInstanceStopped => "stopped",
            Self::ServiceInstanceRestarting => "is restarting",
            Self::ServiceInstanceRestarted => "restarted",
            Self::ServiceInstanceDeleted => "was deleted",
            Self::ServiceInstanceFailed => "failed",
            Self::ServiceInstanceHealthy => "is healthy",
            Self::ServiceInstanceUnhealthy => "is unhealthy",
            Self::ServiceInstanceHealthCheckFailed => "failed a health check",
            Self::ServiceInstanceHealthCheckRecovered => "passes its health check again",
            Self::ServiceInstanceStateChanged => "changed its state",
            Self::ServiceInstanceToolExecutionStarted => "calls a tool",
            Self::ServiceInstanceToolExecutionCompleted => "called a tool",
            Self::ServiceInstanceToolExecutionFailed => "called a tool that failed",
            Self::McpServerTokenForwarded => "accepted a forwarded token",
            Self::McpServerTokenForwardingFailed => "did not accept a forwarded token",
            Self::McpServerTokenExchanged => "accepted an exchanged token",
            Self::McpServerTokenExchangeFailed => "could not be reached by an exchanged token",
        };
        self.sentence(name, what, detail)
    }

    /// The message from its parts.
    fn sentence(self, name: &str, what: &str, detail: &str) -> String {
        let kind = self.kind().as_str();
        // The detail is the object of the sentence.
        let continues = matches!(
            self,
            Self::WorkflowCreated | Self::WorkflowUpdated | Self::McpServerToolsDiscovered
        );
        let is_step = self.as_str().starts_with("WorkflowStep");
        match detail {
            // The detail begins with the step.
            detail if is_step => match detail.split_once(": ") {
                Some((step, more)) => format!("{kind} {name}: step {step} {what}: {more}"),
                None => format!("{kind} {name}: step {detail} {what}"),
            },
            detail if continues => format!("{kind} {name} {what} {detail}"),
            "" => format!("{kind} {name} {what}"),
            detail => format!("{kind} {name} {what}: {detail}"),
        }
    }
}
