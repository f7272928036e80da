//! Programs of an application, which start and end with it.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{OutsideError, ProgramHandler};

#[derive(Debug, Clone, Default)]
pub(crate) struct Programs {
    programs: Vec<Program>,
}

#[derive(Debug, Clone)]
struct Program {
    place: String,
    topic: String,
    handler: Arc<ProgramHandler>,
}

impl Programs {
    pub(super) fn push(&mut self, place: &str, topic: &str, handler: Arc<ProgramHandler>) {
        self.programs.push(Program {
            place: place.to_owned(),
            topic: topic.to_owned(),
            handler,
        });
    }

    /// Starts all programs concurrently; the first failure is the error.
    pub(crate) async fn start(&self) -> Result<(), OutsideError> {
        let mut starting = JoinSet::new();
        for program in self.programs.iter().cloned() {
            starting.spawn(async move {
                let started = program.handler.start().await;
                started.map_err(|error| OutsideError {
                    place: program.place,
                    topic: program.topic,
                    problem: error.into(),
                })
            });
        }
        while let Some(started) = starting.join_next().await {
            // A panic of a task is propagated by tokio.
            started.unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    /// From now on, failures of programs use up no attempts.
    pub(crate) fn begin_stop(&self) {
        self.programs.iter().for_each(|program| program.handler.begin_stop());
    }

    /// Stops all programs, each within 10 s.
    pub(crate) async fn stop(&self) {
        let mut stopping = JoinSet::new();
        for program in &self.programs {
            let handler = Arc::clone(&program.handler);
            stopping.spawn(async move { handler.stop().await });
        }
        while stopping.join_next().await.is_some() {}
    }
}
