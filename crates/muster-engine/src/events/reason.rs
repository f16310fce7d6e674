//! Why there is an event.

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A server behind the gateway.
    McpServer,
    /// A workflow.
    Workflow,
    /// A class of services.
    ServiceClass,
    /// A service.
    ServiceInstance,
}

impl Kind {
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

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A tool or a file added a server.
    McpServerCreated,
    /// A tool or a file changed one.
    McpServerUpdated,
    /// A tool or a file took one away.
    McpServerDeleted,
    /// It could not be connected, or its file could not be written.
    McpServerFailed,
    /// It is being connected.
    McpServerStarting,
    /// It is up.
    McpServerStarted,
    /// It was ended.
    McpServerStopped,
    /// It is being connected again after it was up.
    McpServerRestarting,
    /// What it offers is known.
    McpServerToolsDiscovered,
    /// What it offers is gone.
    McpServerToolsUnavailable,
    /// It was lost, and is being connected again.
    McpServerRecoveryStarted,
    /// It is back.
    McpServerRecoverySucceeded,
    /// It is not back yet.
    McpServerRecoveryFailed,
    /// It wants a login first.
    McpServerAuthRequired,
    /// A tool or a file added a workflow.
    WorkflowCreated,
    /// A tool or a file changed one.
    WorkflowUpdated,
    /// A tool or a file took one away.
    WorkflowDeleted,
    /// A definition that a tool was given is wrong.
    WorkflowValidationFailed,
    /// A definition that a tool was given is right.
    WorkflowValidationSucceeded,
    /// It can be called.
    WorkflowToolRegistered,
    /// What clients can list has changed with it.
    WorkflowCapabilitiesRefreshed,
    /// It was called while its tools were missing.
    WorkflowUnavailable,
    /// A run began.
    WorkflowExecutionStarted,
    /// A run has a record.
    WorkflowExecutionTracked,
    /// A run came to its end.
    WorkflowExecutionCompleted,
    /// A run did not.
    WorkflowExecutionFailed,
    /// A step of a run began.
    WorkflowStepStarted,
    /// A step came to its end.
    WorkflowStepCompleted,
    /// A step did not.
    WorkflowStepFailed,
    /// A step was not done, because its condition did not hold.
    WorkflowStepSkipped,
    /// Whether a step is done was decided.
    WorkflowStepConditionEvaluated,
    /// A tool or a file added a class.
    ServiceClassCreated,
    /// A tool or a file changed one.
    ServiceClassUpdated,
    /// A tool or a file took one away.
    ServiceClassDeleted,
    /// A definition was checked and is good.
    ServiceClassValidated,
    /// A definition was checked and is not.
    ServiceClassValidationFailed,
    /// All of its tools are there.
    ServiceClassAvailable,
    /// Not all of them are.
    ServiceClassUnavailable,
    /// Its tools are there for the first time.
    ServiceClassToolsDiscovered,
    /// Tools that it needs are not there.
    ServiceClassToolsMissing,
    /// Tools that were missing are back.
    ServiceClassToolsRestored,
    /// Somebody made a service.
    ServiceInstanceCreated,
    /// It is being started.
    ServiceInstanceStarting,
    /// It runs.
    ServiceInstanceStarted,
    /// It is being stopped.
    ServiceInstanceStopping,
    /// It does not run any more.
    ServiceInstanceStopped,
    /// It is being started anew.
    ServiceInstanceRestarting,
    /// It was started anew.
    ServiceInstanceRestarted,
    /// Somebody took it away.
    ServiceInstanceDeleted,
    /// It could not be started or stopped.
    ServiceInstanceFailed,
    /// Its checks are good.
    ServiceInstanceHealthy,
    /// Too many checks in a row were bad.
    ServiceInstanceUnhealthy,
    /// A check was bad.
    ServiceInstanceHealthCheckFailed,
    /// A check is good again after bad ones.
    ServiceInstanceHealthCheckRecovered,
    /// Its state is another.
    ServiceInstanceStateChanged,
    /// One of its tools is being called.
    ServiceInstanceToolExecutionStarted,
    /// One of its tools has done its work.
    ServiceInstanceToolExecutionCompleted,
    /// One of its tools has failed.
    ServiceInstanceToolExecutionFailed,
    /// Someone's login to the gateway was good enough for it.
    McpServerTokenForwarded,
    /// Someone's login to the gateway was not.
    McpServerTokenForwardingFailed,
    /// Someone's token was exchanged for one of its own issuer.
    McpServerTokenExchanged,
    /// Someone's token could not be exchanged.
    McpServerTokenExchangeFailed,
}

impl Reason {
    /// The word for it.
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

    /// What it is about.
    pub fn kind(self) -> Kind {
        let about = |kind: &Kind| self.as_str().starts_with(kind.as_str());
        [Kind::Workflow, Kind::ServiceClass, Kind::ServiceInstance]
            .into_iter()
            .find(about)
            .unwrap_or(Kind::McpServer)
    }

    /// Whether somebody should look.
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

    /// The sentence about it; `detail` says more where there is more to say.
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
            Self::McpServerToolsDiscovered => "offers its tools",
            Self::McpServerToolsUnavailable => "no longer offers its tools",
            Self::McpServerRecoveryStarted => "was lost and is being connected again",
            Self::McpServerRecoverySucceeded => "is back",
            Self::McpServerRecoveryFailed => "could not be connected again",
            Self::McpServerAuthRequired => "requires a login",
            Self::WorkflowCreated => "was created with",
            Self::WorkflowUpdated => "was updated with",
            Self::WorkflowDeleted => "was deleted",
            Self::WorkflowValidationFailed => "is not valid",
            Self::WorkflowValidationSucceeded => "is valid",
            Self::WorkflowToolRegistered => "can be called",
            Self::WorkflowCapabilitiesRefreshed => "is among the tools that clients can list",
            Self::WorkflowUnavailable => "cannot run",
            Self::WorkflowExecutionStarted => "began to run",
            Self::WorkflowExecutionTracked => "has a record of its run",
            Self::WorkflowExecutionCompleted => "came to its end",
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
        let kind = self.kind().as_str();
        let is_step = self.as_str().starts_with("WorkflowStep");
        match detail {
            // The detail begins with the step.
            detail if is_step => match detail.split_once(": ") {
                Some((step, more)) => format!("{kind} {name}: step {step} {what}: {more}"),
                None => format!("{kind} {name}: step {detail} {what}"),
            },
            detail if matches!(self, Self::WorkflowCreated | Self::WorkflowUpdated) => {
                format!("{kind} {name} {what} {detail}")
            }
            "" => format!("{kind} {name} {what}"),
            detail => format!("{kind} {name} {what}: {detail}"),
        }
    }
}
