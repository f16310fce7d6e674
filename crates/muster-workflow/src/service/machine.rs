//! Where a service is, and where it goes from there: one pure function.

/// Where a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A gateway that is gone may have left it running.
    Unknown,
    /// It is wanted, and something else has to be up first.
    Waiting,
    /// A tool is starting it.
    Starting,
    /// It runs.
    Running,
    /// A tool is stopping it.
    Stopping,
    /// It does not run.
    Stopped,
    /// A tool that starts or stops it failed.
    Failed,
    /// It could not be started, and will be tried again.
    Retrying,
}

/// Everything that can happen to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It is to run.
    Start,
    /// It is not to run.
    Stop,
    /// It is to run anew.
    Restart,
    /// The tool has done its work.
    Done,
    /// The tool has failed, or nobody waited for it.
    Broke,
    /// It is to run when what it depends on is up.
    Hold,
    /// It is to be tried again.
    Retry,
    /// It turned out to run.
    FoundUp,
    /// It turned out not to run.
    FoundDown,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It is somewhere else, and nothing has to be done for that.
    Is(State),
    /// A tool has to be run; until it is done the service is there.
    Run(Tool, State),
    /// It is so already.
    Already,
    /// Not now: a tool is running.
    Busy,
    /// This cannot happen here, and changes nothing.
    Ignored,
}

/// Which tool has to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// The one that starts.
    Start,
    /// The one that stops.
    Stop,
    /// The one that restarts, or the one that stops and the one that starts.
    Restart,
}

/// What follows when `event` happens to a service that is at `state`.
pub const fn next(state: State, event: Event) -> Next {
    match (state, event) {
        (
            State::Unknown | State::Waiting | State::Stopped | State::Failed | State::Retrying,
            Event::Start,
        )
        | (State::Waiting | State::Stopped | State::Retrying, Event::Restart) => {
            Next::Run(Tool::Start, State::Starting)
        }
        (State::Unknown | State::Running | State::Failed, Event::Restart) => {
            Next::Run(Tool::Restart, State::Starting)
        }
        (State::Unknown | State::Running | State::Failed, Event::Stop) => {
            Next::Run(Tool::Stop, State::Stopping)
        }
        // Nothing was started, so there is nothing for a tool to stop.
        (State::Waiting | State::Retrying, Event::Stop)
        | (State::Unknown, Event::FoundDown)
        | (State::Stopping, Event::Done) => Next::Is(State::Stopped),
        (State::Unknown, Event::FoundUp) | (State::Starting, Event::Done) => {
            Next::Is(State::Running)
        }
        (State::Starting | State::Stopping, Event::Broke) => Next::Is(State::Failed),
        (State::Waiting | State::Failed, Event::Retry) => Next::Is(State::Retrying),
        (State::Unknown | State::Stopped | State::Failed | State::Retrying, Event::Hold) => {
            Next::Is(State::Waiting)
        }
        (State::Running, Event::Start | Event::Hold)
        | (State::Stopped, Event::Stop)
        | (State::Waiting, Event::Hold) => Next::Already,
        (
            State::Starting | State::Stopping,
            Event::Start | Event::Stop | Event::Restart | Event::Hold,
        ) => Next::Busy,
        (_, Event::Done | Event::Broke | Event::Retry | Event::FoundUp | Event::FoundDown) => {
            Next::Ignored
        }
    }
}

impl State {
    /// Every one.
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

    /// The word for it.
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

    /// What a word that a gateway wrote before it ended means for the next one.
    pub fn remembered(word: &str) -> Self {
        match word {
            // It was on its way, or up: only a tool could say where it is now.
            "running" | "starting" | "stopping" | "unknown" => Self::Unknown,
            "failed" | "retrying" => Self::Failed,
            _ => Self::Stopped,
        }
    }

    /// Whether a tool is running for it.
    pub const fn is_passing(self) -> bool {
        matches!(self, Self::Starting | Self::Stopping)
    }

    /// Whether ending the gateway would leave something behind.
    pub const fn may_run(self) -> bool {
        matches!(self, Self::Running | Self::Starting)
    }
}

impl Event {
    /// Every one.
    pub const ALL: [Self; 9] = [
        Self::Start,
        Self::Stop,
        Self::Restart,
        Self::Done,
        Self::Broke,
        Self::Hold,
        Self::Retry,
        Self::FoundUp,
        Self::FoundDown,
    ];
}

#[cfg(test)]
mod tests {
    use super::{Event, Next, State, Tool, next};

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
        assert_eq!(rows.len(), State::ALL.len());
        for (state, row) in State::ALL.into_iter().zip(rows) {
            let (word, cells) = row.split_first().unwrap();
            assert_eq!(state.as_str(), *word);
            assert_eq!(cells.len(), Event::ALL.len(), "{word}");
            for (event, expect) in Event::ALL.into_iter().zip(cells) {
                assert_eq!(shown(next(state, event)), *expect, "{state:?} {event:?}");
            }
        }
    }

    fn shown(next: Next) -> &'static str {
        match next {
            Next::Is(state) => state.as_str(),
            Next::Run(Tool::Start, State::Starting) => "start",
            Next::Run(Tool::Stop, State::Stopping) => "stop",
            Next::Run(Tool::Restart, State::Starting) => "restart",
            Next::Run(tool, state) => panic!("{tool:?} in {state:?}"),
            Next::Already => "already",
            Next::Busy => "busy",
            Next::Ignored => "-",
        }
    }

    #[test]
    fn what_the_last_gateway_wrote() {
        let table = [
            ("running", State::Unknown),
            ("starting", State::Unknown),
            ("stopping", State::Unknown),
            ("unknown", State::Unknown),
            ("failed", State::Failed),
            ("retrying", State::Failed),
            ("stopped", State::Stopped),
            ("waiting", State::Stopped),
            ("", State::Stopped),
        ];
        for (word, state) in table {
            assert_eq!(State::remembered(word), state, "{word}");
        }
    }
}
