//! The state machine of a service: one pure function.

/// The state of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceState {
    /// Unknown: an earlier gateway may have left it running.
    Unknown,
    /// It waits for its dependencies.
    Waiting,
    /// A tool is starting it.
    Starting,
    /// It is running.
    Running,
    /// A tool is stopping it.
    Stopping,
    /// It is stopped.
    Stopped,
    /// A tool that starts or stops it failed.
    Failed,
    /// It could not be started, and will be retried.
    Retrying,
}

/// An event of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceEvent {
    /// A start is requested.
    Start,
    /// A stop is requested.
    Stop,
    /// A restart is requested.
    Restart,
    /// The tool succeeded.
    Done,
    /// The tool failed, or its caller left.
    Failed,
    /// A start is requested, but a dependency is not up.
    Wait,
    /// A retry is scheduled.
    Retry,
    /// A check found it running.
    FoundUp,
    /// A check found it stopped.
    FoundDown,
}

/// The transition that follows an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// To another state, without an action.
    MoveTo(ServiceState),
    /// A tool must run; until it is done the service is in this state.
    Run(LifecycleTool, ServiceState),
    /// None: the service is in that state already.
    Already,
    /// Refused: a tool is running.
    Busy,
    /// None: the event is impossible in this state.
    Ignored,
}

/// The tool to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifecycleTool {
    /// The one that starts.
    Start,
    /// The one that stops.
    Stop,
    /// The one that restarts, or the one that stops and the one that starts.
    Restart,
}

/// The transition of a service in `state` at `event`.
pub const fn next(state: ServiceState, event: ServiceEvent) -> Transition {
    match (state, event) {
        (
            ServiceState::Unknown
            | ServiceState::Waiting
            | ServiceState::Stopped
            | ServiceState::Failed
            | ServiceState::Retrying,
            ServiceEvent::Start,
        )
        | (
            ServiceState::Waiting | ServiceState::Stopped | ServiceState::Retrying,
            ServiceEvent::Restart,
        ) => Transition::Run(LifecycleTool::Start, ServiceState::Starting),
        (
            ServiceState::Unknown | ServiceState::Running | ServiceState::Failed,
            ServiceEvent::Restart,
        ) => Transition::Run(LifecycleTool::Restart, ServiceState::Starting),
        (
            ServiceState::Unknown | ServiceState::Running | ServiceState::Failed,
            ServiceEvent::Stop,
        ) => Transition::Run(LifecycleTool::Stop, ServiceState::Stopping),
        // Nothing was started, so there is nothing for a tool to stop.
        (ServiceState::Waiting | ServiceState::Retrying, ServiceEvent::Stop)
        | (ServiceState::Unknown, ServiceEvent::FoundDown)
        | (ServiceState::Stopping, ServiceEvent::Done) => Transition::MoveTo(ServiceState::Stopped),
        (ServiceState::Unknown, ServiceEvent::FoundUp)
        | (ServiceState::Starting, ServiceEvent::Done) => Transition::MoveTo(ServiceState::Running),
        (ServiceState::Starting | ServiceState::Stopping, ServiceEvent::Failed) => {
            Transition::MoveTo(ServiceState::Failed)
        }
        (ServiceState::Waiting | ServiceState::Failed, ServiceEvent::Retry) => {
            Transition::MoveTo(ServiceState::Retrying)
        }
        (
            ServiceState::Unknown
            | ServiceState::Stopped
            | ServiceState::Failed
            | ServiceState::Retrying,
            ServiceEvent::Wait,
        ) => Transition::MoveTo(ServiceState::Waiting),
        (ServiceState::Running, ServiceEvent::Start | ServiceEvent::Wait)
        | (ServiceState::Stopped, ServiceEvent::Stop)
        | (ServiceState::Waiting, ServiceEvent::Wait) => Transition::Already,
        (
            ServiceState::Starting | ServiceState::Stopping,
            ServiceEvent::Start | ServiceEvent::Stop | ServiceEvent::Restart | ServiceEvent::Wait,
        ) => Transition::Busy,
        (
            _,
            ServiceEvent::Done
            | ServiceEvent::Failed
            | ServiceEvent::Retry
            | ServiceEvent::FoundUp
            | ServiceEvent::FoundDown,
        ) => Transition::Ignored,
    }
}

impl ServiceState {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Unknown,
        Self::Waiting,
        Self::Starting,
        Self::Running,
        Self::Stopping,
        Self::Stopped,
        Self::Failed,
        Self::Retrying,
    ];

    /// Its name in files and replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Retrying => "retrying",
        }
    }

    /// The state that a stored name means after a restart of the gateway.
    pub fn remembered(word: &str) -> Self {
        match word {
            // It was starting or running: only a check can tell its state now.
            "running" | "starting" | "stopping" | "unknown" => Self::Unknown,
            "failed" | "retrying" => Self::Failed,
            _ => Self::Stopped,
        }
    }

    /// Whether a tool is running.
    pub const fn is_passing(self) -> bool {
        matches!(self, Self::Starting | Self::Stopping)
    }

    /// Whether the service may outlive the gateway.
    pub const fn may_run(self) -> bool {
        matches!(self, Self::Running | Self::Starting)
    }
}

impl ServiceEvent {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Start,
        Self::Stop,
        Self::Restart,
        Self::Done,
        Self::Failed,
        Self::Wait,
        Self::Retry,
        Self::FoundUp,
        Self::FoundDown,
    ];
}

#[cfg(test)]
mod tests {
    use super::{LifecycleTool, ServiceEvent, ServiceState, Transition, next};

    /// One row for each state, one column for each event.
    const TABLE: &str = "
                  start    stop     restart  done     broke    hold     retry    up       down
        unknown   start    stop     restart  -        -        waiting  -        running  stopped
        waiting   start    stopped  start    -        -        already  retrying -        -
        starting  busy     busy     busy     running  failed   busy     -        -        -
        running   already  stop     restart  -        -        already  -        -        -
        stopping  busy     busy     busy     stopped  failed   busy     -        -        -
        stopped   start    already  start    -        -        waiting  -        -        -
        failed    start    stop     restart  -        -        waiting  retrying -        -
        retrying  start    stopped  start    -        -        waiting  -        -        -
    ";

    #[test]
    fn every_pair_of_state_and_event() {
        let rows: Vec<Vec<&str>> = TABLE
            .lines()
            .map(|line| line.split_whitespace().collect())
            .filter(|row: &Vec<&str>| !row.is_empty())
            .skip(1)
            .collect();
        assert_eq!(rows.len(), ServiceState::ALL.len());
        for (state, row) in ServiceState::ALL.into_iter().zip(rows) {
            let (word, cells) = row.split_first().unwrap();
            assert_eq!(state.as_str(), *word);
            assert_eq!(cells.len(), ServiceEvent::ALL.len(), "{word}");
            for (event, expect) in ServiceEvent::ALL.into_iter().zip(cells) {
                assert_eq!(shown(next(state, event)), *expect, "{state:?} {event:?}");
            }
        }
    }

    fn shown(next: Transition) -> &'static str {
        match next {
            Transition::MoveTo(state) => state.as_str(),
            Transition::Run(LifecycleTool::Start, ServiceState::Starting) => "start",
            Transition::Run(LifecycleTool::Stop, ServiceState::Stopping) => "stop",
            Transition::Run(LifecycleTool::Restart, ServiceState::Starting) => "restart",
            Transition::Run(tool, state) => panic!("{tool:?} in {state:?}"),
            Transition::Already => "already",
            Transition::Busy => "busy",
            Transition::Ignored => "-",
        }
    }

    #[test]
    fn states_after_a_restart() {
        let table = [
            ("running", ServiceState::Unknown),
            ("starting", ServiceState::Unknown),
            ("stopping", ServiceState::Unknown),
            ("unknown", ServiceState::Unknown),
            ("failed", ServiceState::Failed),
            ("retrying", ServiceState::Failed),
            ("stopped", ServiceState::Stopped),
            ("waiting", ServiceState::Stopped),
            ("", ServiceState::Stopped),
        ];
        for (word, state) in table {
            assert_eq!(ServiceState::remembered(word), state, "{word}");
        }
    }
}
