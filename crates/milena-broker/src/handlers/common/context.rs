//! Waiting for the answers of coordinators.

use milena_wire::{
    errors::ErrorCode,
    message::{Request, Response},
};

use super::{Caller, Handled, outgoing, reply};
use crate::coordinators::Answer;

/// What came of asking a coordinator.
pub(super) type Outcome<Reply> = Result<Reply, ErrorCode>;

impl Caller<'_> {
    /// Reads the body, or says why the connection must end.
    pub(super) fn body<R: Request>(&self) -> Result<R, Handled> {
        self.request.body().map_err(|error| Handled::Close(error.to_string()))
    }

    /// Answers with what `response` makes of the outcome, when it is there.
    pub(super) fn wait_for<Reply: Send + 'static, R: Response>(
        &self,
        answer: Outcome<Answer<Reply>>,
        response: impl FnOnce(Outcome<Reply>) -> R + Send + 'static,
    ) -> Handled {
        self.wait_for_all(vec![answer], |mut outcomes| {
            response(outcomes.pop().unwrap_or(Err(ErrorCode::CoordinatorNotAvailable)))
        })
    }

    /// Answers with what `response` makes of all outcomes, in their order, when the last is there.
    pub(super) fn wait_for_all<Reply: Send + 'static, R: Response>(
        &self,
        answers: Vec<Outcome<Answer<Reply>>>,
        response: impl FnOnce(Vec<Outcome<Reply>>) -> R + Send + 'static,
    ) -> Handled {
        if answers.iter().all(|answer| !matches!(answer, Ok(Answer::Later(_)))) {
            let now = |answer| match answer {
                Ok(Answer::Now(answer)) => Ok(answer),
                Ok(Answer::Later(_)) => Err(ErrorCode::CoordinatorNotAvailable),
                Err(error) => Err(error),
            };
            return reply(self.request, response(answers.into_iter().map(now).collect()), vec![]);
        }
        let request = self.request.clone();
        Handled::Later(Box::pin(async move {
            let mut outcomes = Vec::with_capacity(answers.len());
            for answer in answers {
                outcomes.push(match answer {
                    Ok(answer) => answer.wait().await,
                    Err(error) => Err(error),
                });
            }
            outgoing(&request, response(outcomes), vec![])
        }))
    }
}

/// The error of an outcome that is not what was asked for.
pub(super) fn error_of<Reply>(outcome: &Outcome<Reply>) -> ErrorCode {
    outcome.as_ref().err().copied().unwrap_or(ErrorCode::UnknownServerError)
}
